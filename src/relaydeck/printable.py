"""Text from outside, shown on a terminal: it must not control the terminal."""


def printable(text: str) -> str:
    """`text` with every control, format and surrogate character written as a Python escape such as \\x1b."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
