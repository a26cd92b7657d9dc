"""CRC-32C (Castagnoli), which Cloud KMS uses to detect corruption on the way. It keeps no secret and proves nothing."""

_POLYNOMIAL = 0x82F63B78  # reversed


def _table_entry(index: int) -> int:
    for _ in range(8):
        index = index >> 1 ^ (_POLYNOMIAL if index & 1 else 0)
    return index


_TABLE = tuple(_table_entry(index) for index in range(256))


def crc32c(content: bytes) -> int:
    remainder = 0xFFFF_FFFF
    for byte in content:
        remainder = remainder >> 8 ^ _TABLE[(remainder ^ byte) & 0xFF]
    return remainder ^ 0xFFFF_FFFF
