"""Words: the three tokenisations, the Penn Treebank one against what the original gave."""

import hashlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from show_attend_tell.rows import MOST_CHARACTERS, MOST_LETTERS
from show_attend_tell.scoring.metrics import tokens
from show_attend_tell.scoring.metrics.ptb import ptb_words
from tests.scoring.cases import read_json, read_lines
from tests.shared import SHARED, needs_shared

LINE_BREAKS = "\n\r\v\f\u2028\u2029"


@pytest.mark.parametrize(
    ("text", "authors", "plain"),
    [
        ("A Dog .", "a dog .", "a dog"),
        ("  two\tdogs\n", "two dogs", "two dogs"),
        ("a dog 's -- t-shirt ,", "a dog 's -- t-shirt ,", "a dog 's t-shirt"),
        ("", "", ""),
    ],
)
def test_blank_tokenisations_lower_case_and_split(text: str, authors: str, plain: str) -> None:
    assert (tokens.authors(text), tokens.plain(text)) == (authors, plain)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't", "do n't"),
        ("cannot", "can not"),
        ("'tis the dog's", "'t is the dog 's"),
        ("o'clock x'clock", "o'clock x ` clock"),
        ("A'field a'field", "a'field a ` field"),
        ("(a) [b] {c}", "-lrb- a -rrb- -lsb- b -rsb- -lcb- c -rcb-"),
        ('he said "yes"', "he said `` yes ''"),
        ("the U.S. flag, 5.", "the u.s. flag , 5 ."),
        ("see no. 5 or no. dogs", "see no. 5 or no . dogs"),
        ("1.5-x x-1.5", "1.5-x x-1 .5"),
        ("a... ab...", "a. . . ab ..."),
        ("3 1/2 cups", "3\xa01/2 cups"),
        ("(555) 123-4567", "-lrb-555-rrb-\xa0123-4567"),
        ("http://a.b/c?d, a@b.c", "http://a.b/c?d , a@b.c"),
        ("AT&T and a&b", "at&t and a & b"),
        ("a 😀 dog\u200bs", "a dog s"),
        ("vitamin c. The dog", "vitamin c . the dog"),
        ("game., 5.,", "game. , 5. ,"),
        ("“’a", "``' a"),
        ("http://😀 http://a", "http://😀 http : / / a"),
    ],
)
def test_ptb_cuts_like_the_original(text: str, words: str) -> None:
    assert " ".join(ptb_words(text)) == words


@needs_shared
@pytest.mark.parametrize("name", ["ptb-examples.jsonl.gz", "ptb-unicode-sweep.jsonl.gz"])
def test_ptb_equals_every_recorded_example(name: str) -> None:
    examples = [
        (re.sub(f"[{LINE_BREAKS}]", " ", example["text"]), example["tokens"])
        for example in read_lines(name)
    ]
    assert [(text, tokens.ptb(text)) for text, _ in examples] == examples


@needs_shared
def test_ptb_equals_the_recorded_adversarial_case() -> None:
    case = read_json("case_e_adversarial.json.gz")
    expected = read_json("tokenised_e_adversarial.json.gz")
    assert {id_: tokens.ptb(text) for id_, text in case["candidates"].items()} == expected[
        "candidates"
    ]
    assert {
        id_: [tokens.ptb(text) for text in texts] for id_, texts in case["references"].items()
    } == expected["references"]


@needs_shared
def test_ptb_equals_the_original_on_all_of_flickr8k() -> None:
    path = SHARED / "data" / "flickr8k" / "Flickr8k_text" / "Flickr8k.token.txt"
    rows = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    cleaned = [tokens.ptb(row.split("\t")[1]) for row in rows]
    assert len(cleaned) == 40_460
    assert (
        hashlib.sha256("\n".join(cleaned).encode()).hexdigest()
        == "97a192e0a93bdb69ceda6188e83ebadc1aba187b6cde43366251bffb8e367482"
    )


@pytest.mark.parametrize("mark", LINE_BREAKS)
def test_a_line_break_is_a_space(mark: str) -> None:
    assert ptb_words(f"a dog{mark}runs") == ["a", "dog", "runs"]


PIECES = st.sampled_from(
    [
        *("a", "Dog", "1", "é", "'", "’", "s", ".", "-", "/", "<", ">", "&amp;", "@", "no."),
        *("U.S.", "The", " ", "\xa0", "\u2003", "\xad", "😀", "12", "345", "(", ")", ":"),
        *("http://", ".com", "n't"),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=30))
def test_ptb_words_are_never_empty_and_hold_no_blank(text: str) -> None:
    assert not any(word == "" or " " in word for word in ptb_words(text))


@given(st.lists(PIECES, max_size=8).map("".join), st.sampled_from(["dog", "the", "a"]))
def test_a_small_letter_word_after_a_blank_changes_nothing_before_it(text: str, word: str) -> None:
    """The short cut that makes ordinary captions fast relies on this."""
    text = text.replace("<", "")
    assert ptb_words(f"{text} {word}") == [*ptb_words(text), word]


def test_a_lone_surrogate_does_not_crash() -> None:
    assert ptb_words("a \ud800 dog") == ["a", "dog"]


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["a,", "😀", "a'", "#a", '<a"', "<a  ", "a@", "a-", "1/", "a.b@"])
def test_the_longest_caption_is_cut_in_little_time(piece: str) -> None:
    """Some rules look ahead to the end of what holds no blank, at each place of it."""
    word = (piece * MOST_LETTERS)[: MOST_LETTERS - 1]
    begin = time.process_time()
    tokens.ptb(" ".join([word] * (MOST_CHARACTERS // MOST_LETTERS)))
    assert time.process_time() - begin < 2
