"""Text into words: the three tokenisations that protocols name.

Each takes a caption and gives its words joined by single blanks.
"""

from show_attend_tell.scoring.metrics.ptb import ptb_words

# What coco-caption drops. The bracket escapes never occur, because words are in lower case by then:
# brackets stay as the words -lrb- and so on. So do ?! and !!, which are words of their own.
PTB_DROPPED = frozenset(
    [
        *("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-"),
        *(".", "?", "!", ",", ":", "-", "--", "...", ";"),
    ]
)


def authors(text: str) -> str:
    """Lower-case, split at white space, punctuation kept: the form of the paper's references."""
    return " ".join(text.lower().split())


def plain(text: str) -> str:
    """Lower-case, split at white space, words without a letter or digit dropped."""
    return " ".join(word for word in text.lower().split() if any(map(str.isalnum, word)))


def ptb(text: str) -> str:
    """Penn Treebank words, lower-case, coco-caption's list of punctuation dropped.

    A word may hold a no-break space: `3 1/2` and telephone numbers are one word.
    """
    return " ".join(word for word in ptb_words(text) if word not in PTB_DROPPED)
