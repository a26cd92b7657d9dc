module.exports = { networks: { hardhat: {} } };
