"""How captions become words, and words become indices and back."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.data.vocabulary import Vocabulary, tokenise
from show_attend_tell.errors import UserError
from tests.shared import SHARED, needs_shared

HEADER = "# show_attend_tell vocabulary 1, punctuation dropped\n"

# caption, words without punctuation, words with it
TOKENS = [
    ("A dog runs .", "a dog runs", "a dog runs ."),
    ("A dog runs.", "a dog runs", "a dog runs ."),
    ("A tri-colored, well-fed dog", "a tri-colored well-fed dog", "a tri-colored , well-fed dog"),
    ("at six o'clock", "at six o'clock", "at six o'clock"),
    ("at six o’clock", "at six o'clock", "at six o'clock"),
    ("the dog's ball", "the dog's ball", "the dog's ball"),
    ("the dog 's ball", "the dog s ball", "the dog 's ball"),
    ("a sign saying 'stop'", "a sign saying stop", "a sign saying ' stop '"),
    ('the "best" dog - ever', "the best dog ever", 'the " best " dog - ever'),
    ("rock & roll at 7:30", "rock roll at 7 30", "rock & roll at 7 : 30"),
    ("snake_case", "snake case", "snake _ case"),
    ("<unk> and <end>", "unk and end", "< unk > and < end >"),
    ("0", "0", "0"),
    ("", "", ""),
    (" . , ! ", "", ". , !"),
    ("one\ttwo\u2028three\u0085four\r\n", "one two three four", "one two three four"),
    ("cafe\u0301 CAFÉ", "café café", "café café"),
    ("ΟΔΟΣ", "οδος", "οδος"),
    ("一只狗 在跑。", "一只狗 在跑", "一只狗 在跑 。"),
    ("كلب يركض، سريع", "كلب يركض سريع", "كلب يركض ، سريع"),
    ("नमस्ते", "नमस्ते", "नमस्ते"),  # vowel signs are marks, not letters, and belong to the word
    ("a dog 🐕!", "a dog", "a dog 🐕 !"),
    ("half \ud83d a pair", "half a pair", "half a pair"),
    ("nul\0 byte\ufeff", "nul byte", "nul byte"),
]


@pytest.mark.parametrize(("caption", "dropped", "kept"), TOKENS)
def test_caption_is_cut_into_these_words(caption: str, dropped: str, kept: str) -> None:
    assert tokenise(caption) == dropped.split()
    assert tokenise(caption, punctuation=True) == kept.split()


@given(st.text(st.characters()), st.booleans())
def test_tokens_joined_and_cut_again_are_the_same(caption: str, punctuation: bool) -> None:
    tokens = tokenise(caption, punctuation=punctuation)
    assert tokenise(" ".join(tokens), punctuation=punctuation) == tokens


@given(st.text(st.characters()), st.booleans())
def test_tokens_are_words_that_utf8_can_write(caption: str, punctuation: bool) -> None:
    for token in tokenise(caption, punctuation=punctuation):
        assert token.encode("utf-8").split() == [token.encode("utf-8")]
        assert token not in ("<end>", "<unk>")


def test_caption_of_ten_thousand_words_stays_whole() -> None:
    assert len(tokenise("word " * 10_000)) == 10_000


@needs_shared
def test_flickr8k_with_punctuation_is_cut_at_its_blanks() -> None:
    dataset = load_dataset(SHARED / "data" / "flickr8k")
    captions = [caption for example in dataset.examples for caption in example.captions]
    same = sum(tokenise(text, punctuation=True) == text.lower().split() for text in captions)
    assert same / len(captions) > 0.999


def test_words_are_ordered_by_frequency_then_alphabet() -> None:
    vocabulary = Vocabulary.build(["b b b", "z c a", "z c a"])
    assert vocabulary.words == ("<end>", "<unk>", "b", "a", "c", "z")


def test_size_counts_the_two_special_words() -> None:
    assert Vocabulary.build(["b b c"], size=3).words == ("<end>", "<unk>", "b")


def test_no_size_keeps_every_word() -> None:
    assert len(Vocabulary.build((f"w{i}" for i in range(10_005)), size=None)) == 10_007


def test_minimum_count_leaves_out_rarer_words() -> None:
    vocabulary = Vocabulary.build(["a a b b c"], minimum_count=2)
    assert vocabulary.words == ("<end>", "<unk>", "a", "b")


def test_size_without_room_for_the_special_words_is_refused() -> None:
    with pytest.raises(UserError, match="vocabulary size is 1; it must be 2 or more") as caught:
        Vocabulary.build(["a"], size=1)
    assert caught.value.code == "request.vocabulary"


def test_encode_ends_with_end_and_maps_other_words_to_unknown() -> None:
    vocabulary = Vocabulary.build(["a dog"])
    assert vocabulary.encode("A cat.") == [2, Vocabulary.UNKNOWN, Vocabulary.END]


@pytest.mark.parametrize("punctuation", [False, True])
def test_literal_special_words_in_a_caption_stay_ordinary(punctuation: bool) -> None:
    caption = "<end> of the <unk> 0"
    vocabulary = Vocabulary.build([caption], punctuation=punctuation)
    ids = vocabulary.encode(caption)
    assert Vocabulary.END not in ids[:-1]
    assert Vocabulary.UNKNOWN not in ids


def test_caption_of_unknown_words_only_is_encoded() -> None:
    assert Vocabulary.build(["a"]).encode("x y") == [1, 1, 0]


def test_decode_stops_at_the_first_end() -> None:
    vocabulary = Vocabulary.build(["a dog"])
    assert vocabulary.decode([2, 1, 0, 3]) == ["a", "<unk>"]


def test_start_is_the_index_after_the_last_word() -> None:
    assert Vocabulary.build(["a dog"]).start == 4


@given(st.lists(st.text(st.characters()), max_size=5), st.booleans())
def test_known_words_survive_encode_and_decode(captions: list[str], punctuation: bool) -> None:
    vocabulary = Vocabulary.build(captions, size=None, punctuation=punctuation)
    for caption in captions:
        expected = tokenise(caption, punctuation=punctuation)
        assert vocabulary.decode(vocabulary.encode(caption)) == expected


@pytest.mark.parametrize("punctuation", [False, True])
def test_saved_vocabulary_is_read_back_equal(tmp_path: Path, punctuation: bool) -> None:
    vocabulary = Vocabulary.build(["A dog 's café , 狗 🐕 ."], punctuation=punctuation)
    vocabulary.save(tmp_path / "vocabulary.txt")
    assert Vocabulary.load(tmp_path / "vocabulary.txt") == vocabulary


def test_file_is_a_header_and_a_word_a_line(tmp_path: Path) -> None:
    Vocabulary.build(["a dog"]).save(tmp_path / "vocabulary.txt")
    content = (tmp_path / "vocabulary.txt").read_text(encoding="utf-8")
    assert content == HEADER + "<end>\n<unk>\na\ndog\n"


def test_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "vocabulary.txt"
    text = "\ufeff" + (HEADER + "<end>\n<unk>\na\n").replace("\n", "\r\n")
    file.write_bytes(text.encode("utf-8"))
    assert Vocabulary.load(file).words == ("<end>", "<unk>", "a")


BAD_FILES = [
    (b"", "line 1: expected"),
    (b"a\nb\n", "line 1: expected"),
    (HEADER.replace(" 1,", " 2,").encode() + b"<end>\n<unk>\n", "format 2 is newer"),
    (HEADER.encode(), "line 2: expected <end>, then <unk>, found"),
    (HEADER.encode() + b"<unk>\n<end>\na\n", "line 2: expected <end>, then <unk>, found"),
    (HEADER.encode() + b"<end>\n<unk>\na\n\nb\n", "line 5: expected one word, found ''"),
    (HEADER.encode() + b"<end>\n<unk>\nred dog\n", "line 4: expected one word, found 'red dog'"),
    (HEADER.encode() + b"<end>\n<unk>\na\nb\na\n", "line 6: 'a' is already on line 4"),
    (HEADER.encode() + b"<end>\n<unk>\na\ndo", "line 5: the file is cut off"),
    (HEADER.encode() + b"<end>\n<unk>\ncaf\xe9\n", "not UTF-8"),
]


@pytest.mark.parametrize(("content", "message"), BAD_FILES)
def test_bad_vocabulary_file_is_named_with_its_line(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "vocabulary.txt"
    file.write_bytes(content)
    with pytest.raises(UserError) as caught:
        Vocabulary.load(file)
    assert caught.value.code == "model.vocabulary"
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


def test_missing_vocabulary_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.txt") as caught:
        Vocabulary.load(tmp_path / "absent.txt")
    assert caught.value.code == "model.vocabulary"


def test_hash_is_that_of_the_saved_file(tmp_path: Path) -> None:
    vocabulary = Vocabulary.build(["a dog"])
    vocabulary.save(tmp_path / "vocabulary.txt")
    saved = (tmp_path / "vocabulary.txt").read_bytes()
    assert vocabulary.sha256 == hashlib.sha256(saved).hexdigest()


def test_hash_tells_vocabularies_apart() -> None:
    hashes = {
        Vocabulary(words, punctuation).sha256
        for words in (("<end>", "<unk>", "a"), ("<end>", "<unk>", "b"))
        for punctuation in (False, True)
    }
    assert len(hashes) == 4
