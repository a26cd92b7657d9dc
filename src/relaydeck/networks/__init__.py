"""Networks and their nodes. Every network is an EVM chain: `evm` talks to its nodes and reads its transactions."""
