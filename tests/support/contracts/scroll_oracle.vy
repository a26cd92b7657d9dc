# pragma version ^0.4.0
# A stand-in for Scroll's L1 gas price oracle: the prices of data.

l1BaseFee: public(uint256)
l1BlobBaseFee: public(uint256)
commitScalar: public(uint256)
blobScalar: public(uint256)
penaltyFactor: public(uint256)
