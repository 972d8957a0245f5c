"""Text into words: the three tokenisations that recipes name.

Each takes a caption and gives its words joined by single blanks.
"""

PTB_DROPPED = frozenset(
    [
        "''",
        "'",
        "``",
        "`",
        "-LRB-",
        "-RRB-",
        "-LCB-",
        "-RCB-",
        ".",
        "?",
        "!",
        ",",
        ":",
        "-",
        "--",
        "...",
        ";",
    ]
)


def authors(text: str) -> str:
    """Lower-case, split at white space, punctuation kept: the form of the paper's references."""
    return " ".join(text.lower().split())


def plain(text: str) -> str:
    """Lower-case, split at white space, words without a letter or digit dropped."""
    return " ".join(word for word in text.lower().split() if any(map(str.isalnum, word)))


def ptb(text: str) -> str:
    """Penn Treebank words, lower-case, coco-caption's list of punctuation dropped."""
    return " ".join(word for word in text.lower().split() if word not in PTB_DROPPED)
