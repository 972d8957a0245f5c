"""Penn Treebank words exactly as Stanford's tokeniser 3.4.1 finds them, lower-cased, without Java.

A list of rules is tried at each place of the text. The one that reaches farthest wins, the first
listed among equals; what a rule only looks ahead at counts as reached. The rules were settled by
comparing with the original on some millions of texts (`docs/scoring.md` says which), so they keep
its surprises: `o'clock` is one word and `x'clock` three, `1.5-x` one and `x-1.5` two.

Rules do not see the text but its shape: characters above ASCII that behave alike are replaced by
one representative (λ a letter, μ a mark, δ a digit, § a symbol), so that patterns stay short.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache

from show_attend_tell.scoring.metrics import ptb_characters

# --- The shape of a text ---

# Characters above ASCII that rules name one by one.
_NAMED = (
    "\t\xa0\xad‐‑֊‘’‛‚“”„‟«»‹›\x91\x92\x93\x94–—―\x96\x97…\x85½¼¾⅓⅔⁄¢£¤₠€\x80\u066b\u066c"
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉₊₋"
)
_LINE_BREAKS = "\n\r\v\f\u2028\u2029"
_WIDE_SPACES = (*range(0x2000, 0x200B), 0x3000)


class _Shapes(dict[int, str]):
    """Code point -> representative; looked up in the ranges when first met."""

    def __init__(self) -> None:
        super().__init__({code: chr(code) for code in (*range(32, 127), *map(ord, _NAMED))})
        self.update(dict.fromkeys(map(ord, _LINE_BREAKS), " "))
        self.update(dict.fromkeys(_WIDE_SPACES, "\u2003"))
        self._ranges = sorted(
            (int(first, 16), int(last or first, 16), representative)
            for representative, ranges in (
                ("λ", ptb_characters.LETTERS),
                ("μ", ptb_characters.MARKS),
                ("δ", ptb_characters.DIGITS),
                ("§", ptb_characters.SYMBOLS),
            )
            for first, _, last in (entry.partition("-") for entry in ranges.split())
        )

    def __missing__(self, code: int) -> str:
        place = bisect_right(self._ranges, code, key=lambda entry: entry[0]) - 1
        _, last, representative = self._ranges[place]
        self[code] = representative if place >= 0 and code <= last else "\0"
        return self[code]


_SHAPES = _Shapes()


# --- How a token is written ---


def _word(text: str) -> str:
    """Without soft hyphens; nothing but soft hyphens is a hyphen."""
    return text.replace("\xad", "") or "-"


def _verbatim(text: str) -> str:
    return text


def _solid(text: str) -> str:
    """With no-break spaces, and round brackets escaped."""
    return _bracket(text.replace(" ", "\xa0"))


def _bracket(text: str) -> str:
    return text.replace("(", "-lrb-").replace(")", "-rrb-")


def _ampersand(text: str) -> str:
    return _word(re.sub("(?i)&amp;", "&", text))


def _straight(text: str) -> str:
    return re.sub(_APOSTROPHE, "'", text)


_QUOTES = {
    **dict.fromkeys("`‘‛‹\x91", "`"),
    **dict.fromkeys("’›\x92", "'"),
    **dict.fromkeys("“«\x93", "``"),
    **dict.fromkeys("”»\x94", "''"),
}


def _quotes(text: str) -> str:
    return "".join(_QUOTES.get(mark, mark) for mark in text)


def _dashes(text: str) -> str:
    return text if len(text) > 4 else "--"


def _always(written: str) -> Callable[[str], str]:
    return lambda _: written


# --- Pieces of patterns ---

_LETTER = "[A-Za-zλ]"
_DIGIT = "[0-9δ]"
_LETTER_OR_DIGIT = "[A-Za-zλ0-9δ]"
_SPACE = "[ \t\xa0\u2003\x85]"
# Plain words may hold marks, soft hyphens and HTML's accented vowels as well.
_VOWEL_ENTITY = "&[aeiouAEIOU](?i:acute|grave|uml);"
_WIDE_LETTER = rf"(?:[A-Za-zλμ\xad]|{_VOWEL_ENTITY})"
_WIDE_LETTER_OR_DIGIT = rf"(?:[A-Za-zλμ\xad0-9δ]|{_VOWEL_ENTITY})"
_PLAIN_WORD = (
    rf"{_WIDE_LETTER}{_WIDE_LETTER_OR_DIGIT}*(?:[.!?]{_WIDE_LETTER}{_WIDE_LETTER_OR_DIGIT}*)*"
)
_APOSTROPHE = "(?:['’\x92]|&apos;)"
_APOSTROPHE_OR_QUOTE = "(?:['’\x92‘‛\x91`]|&apos;)"
# 's 'd 'm 'll 're 've
_CLITIC = rf"{_APOSTROPHE}(?i:[sdm]|ll|re|ve)"
_ELISION = rf"(?:[dDoOlL]{_APOSTROPHE_OR_QUOTE}{_LETTER_OR_DIGIT})?"
# t-shirt, snow_boarder, jack-o'lantern
_COMPOUND = rf"{_ELISION}{_LETTER_OR_DIGIT}+(?:[-_֊‐‑]{_ELISION}{_LETTER_OR_DIGIT}+)*"
# u.s.-based, 1,000-meter, pre-u.s.
_DOTTED_COMPOUND = r"[A-Za-z0-9][A-Za-z0-9.,\xad]*(?:-(?:(?:[A-Za-z]\.){2,}|[A-Za-z0-9\xad]+))+"
# AT&T
_CAPITALS = "[A-Z]+(?:(?:[+&]|&(?i:amp);)[A-Z]+)+"
_SLASH_PART = "[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}"
_NUMBER = rf"[-+]?(?:{_DIGIT}*(?:[.:,\xad\u066b\u066c]{_DIGIT}+)+|{_DIGIT}+)"
_TAG_NAME = "[A-Za-z][-A-Za-z0-9_:.]*"
_TAG = (
    rf"<(?:/{_TAG_NAME} *"
    rf"|{_TAG_NAME}(?: +{_TAG_NAME}(?: *= *(?:\"[^\"]*\"|'[^']*'))?)* */? *"
    r"|[!?][A-Za-z-][^>]*)>"
)
_PATH = r"(?:/[^ \t\"<>|()]+[^ \t\"<>|.!?,(){}-])"
_EYES, _MOUTH = "[<>]?[:;=]", r"[()DdPp\[\]{@O|\\]"
_FACE_SIDE = "[-^x=~<>']"

# Abbreviations that keep their full stop: always; only with a capital in front; only before digits.
_ABBREVIATIONS = (
    "adj|adm|adv|alex|assoc|asst|atty|ave|brig|capt|cf|cie|cmdr|col|comdr|cpl|dept|det|drs?|elec|"
    "ens|ft|gen|govs?|hon|insp|invt|jos|lieut|lt|maj|messrs|mlle|mme|mrs?|ms|msgr|mt|natl|pfc|ph|"
    "pres|prof|pvt|reps?|rev|sens?|sfc|sgt|spc|ste?|supt|treas|vs|wm"
)
_ABBREVIATIONS_AT_ENDS = (
    "ala?|apr|ariz|assn|aug|bhd|bldg|blvd|bros|calif|colo|conn|corp|cos?|ct|dak|dec|ed\\.d|esq|est|"
    "etc|ext|feb|fla|fri|ga|inc|ind|intl|jan|jr|jul|jun|kans?|ky|ltd|mar|md|mich|minn|mo|mon|mont|"
    "neb|nev|nov|oct|okla|penn|ph\\.d|plc|rd|rt|sept?|seq|sq|sr|sys|tel|tenn|thu|thurs|tues?|univ|"
    "va|vt|wed|wisc?|wyo"
)
_CAPITAL_ABBREVIATIONS = (
    "A(?i:z|rk)|D(?i:el)|I(?i:ll)|L(?i:a)|M(?i:ass|iss)|O(?i:re)|P(?i:a)|T(?i:ex)|W(?i:ash)"
)
_NUMBER_ABBREVIATIONS = "art|ca|figs?|nos?|op|pp|prop"
_ABBREVIATION = rf"(?:(?i:{_ABBREVIATIONS})|[Mm][ft][Gg])\."
_ABBREVIATION_AT_END = (
    rf"(?:(?i:{_ABBREVIATIONS_AT_ENDS})|{_CAPITAL_ABBREVIATIONS}|[Pp]?[Pp][Tt][ey][Ss]?)\."
)
# Words that, capitalised, begin a sentence: a single letter before them ends one ("plan b. The").
_SENTENCE_BEGINNINGS = (
    "A(?i:|bout|ccording|dditionally|fter|n|s|t)|B(?i:ut)|E(?i:arlier)|H(?i:e|er|ere|owever)|"
    "I(?i:f|n|t)|L(?i:ast)|M(?i:any|ore|r\\.|s\\.)|N(?i:ow)|O(?i:nce|ne|ther|ur)|S(?i:he|ince|o|ome|uch)|"
    "T(?i:hat|he|heir|hen|here|hese|hey|his)|W(?i:e|hat|hen|hile)|Y(?i:et|ou)"
)
_EXTENSION = (
    "(?i:bat|bmp|c|cgi|class|cpp|dll|docx?|exe|gif|gz|h|html?|jar|java|jpe?g|mov|pdf|php|pl|png|ppt|"
    "ps|py|sql|tar|txt|wav|x|xml|zip)"
)

# --- The rules: where a pattern has a group, the group is the token and the rest is look-ahead ---

_TWO_WORDS = (
    ("can", "not"),
    ("gim", "me"),
    ("gon", "na"),
    ("got", "ta"),
    ("lem", "me"),
    ("wan", "na"),
)

_RULES: list[tuple[re.Pattern[str], Callable[[str], str]]] = [
    (re.compile(pattern), write)
    for pattern, write in (
        (_TAG, _solid),
        ("&(?i:md|mdash|ndash);", _always("--")),
        # Words with an apostrophe, and words that are two.
        *((f"((?i:{first}))(?i:{second})", _word) for first, second in _TWO_WORDS),
        ("('[tT])(?i:is|was)", _word),
        (rf"([A-Za-z\xad]*[A-MO-Za-mo-z]\xad*)[nN]{_APOSTROPHE_OR_QUOTE}[tT]", _word),
        (rf"({_PLAIN_WORD}){_CLITIC}", _word),
        (rf"[nN]{_APOSTROPHE_OR_QUOTE}[tT]", _straight),
        (rf"({_CLITIC})[^A-Za-z]", _straight),
        (rf"[A-HJ-XZn]{_APOSTROPHE_OR_QUOTE}{_LETTER}{{2,}}", _word),
        (rf"{_LETTER}+[aeiouyAEIOUY]{_APOSTROPHE_OR_QUOTE}[aeiouA-Z]{_LETTER}*", _word),
        (rf"{_APOSTROPHE}[nN]{_APOSTROPHE}?", _word),
        (rf"[lLdDjJ]{_APOSTROPHE}", _word),
        (rf"([yYjJ]{_APOSTROPHE})(?![sdmSDM]){_LETTER}", _word),
        (rf"(?i:dunkin|somethin|ol){_APOSTROPHE}", _word),
        (rf"{_APOSTROPHE}(?i:em|till?|cause|[2-9]0s)", _word),
        (rf"(?i:c{_APOSTROPHE}est|cap{_APOSTROPHE}n|o{_APOSTROPHE_OR_QUOTE}o)", _word),
        ("(?i:c'mon|cont'd\\.|e'er|ev'ry|li'l|nat'l|nor'easter|s'mores)", _word),
        (rf"({_APOSTROPHE}[0-9]{{2}}){_SPACE}", _word),
        # Plain words and compounds; before , ; : they keep a full stop.
        (_COMPOUND, _word),
        (_PLAIN_WORD, _word),
        (rf"((?:{_DOTTED_COMPOUND}|{_COMPOUND}|{_PLAIN_WORD}|{_CAPITALS})\.)[,;:]", _ampersand),
        # Addresses.
        (r"(?i:https?)://[^ \t\"<>|(){}]+[^ \t\"<>|.!?,(){}-]", _verbatim),
        (rf"(?i:www)\.(?:[^ \t\"<>|.!?,(){{}}]+\.)+[A-Za-z]{{2,4}}{_PATH}?", _verbatim),
        (rf"(?:[^ \t!\"$'(),-_`{{|}}]+\.)+(?i:com|edu|net|org){_PATH}?", _verbatim),
        (
            r"(?:<|&(?i:lt);)?[A-Za-z0-9][^ \t\xa0\"<>|(){}]*"
            r"@(?:[^ \t\xa0\"<>|(){}.]+\.)*[^ \t\xa0\"<>|(){}.]+(?:>|&(?i:gt);)?",
            _verbatim,
        ),
        # Full stops that belong to the word.
        (rf"({_ABBREVIATION_AT_END})[^\n]{{2}}", _word),
        (_ABBREVIATION_AT_END, _word),
        (_DOTTED_COMPOUND, _word),
        ("@[A-Za-z_][A-Za-z0-9_]*", _word),
        (f"#{_WIDE_LETTER}+", _verbatim),
        (rf"((?i:{_NUMBER_ABBREVIATIONS})\.){_SPACE}?{_DIGIT}", _word),
        (rf"([A-Za-z])\.{_SPACE}+(?:{_SENTENCE_BEGINNINGS}|{_TAG}){_SPACE}", _word),
        (_ABBREVIATION, _word),
        (r"[A-Za-z](?:\.[A-Za-z])*\.", _word),
        (
            rf"({_WIDE_LETTER_OR_DIGIT}+(?:\.{_WIDE_LETTER_OR_DIGIT}+)*\.{_EXTENSION})"
            rf"(?:{_SPACE}|[.,!?])",
            _verbatim,
        ),
        (rf"{_SLASH_PART}(?:\\?/{_SLASH_PART}){{1,2}}", _word),
        (r"[Cc]\+\+|[CcFf]#|[A-Z]+\$", _word),
        # Numbers: plain, fraction, date, telephone.
        (_NUMBER, _word),
        (rf"(?:{_DIGIT}{{1,4}}[- \xa0])?{_DIGIT}{{1,4}}(?:\\?/|⁄){_DIGIT}{{1,4}}", _solid),
        (rf"{_DIGIT}{{1,2}}[-/]{_DIGIT}{{1,2}}[-/]{_DIGIT}{{2,4}}", _word),
        (
            rf"(?:\({_DIGIT}{{2,3}}\)[ \xa0]?"
            rf"|\+{{0,2}}(?:{_DIGIT}{{2,4}}[- \xa0])?{_DIGIT}{{2,4}}[- \xa0])"
            rf"{_DIGIT}{{3,4}}[- \xa0]?{_DIGIT}{{3,5}}",
            _solid,
        ),
        ("½", _always("1/2")),
        ("¼", _always("1/4")),
        ("¾", _always("3/4")),
        ("⅓", _always("1/3")),
        ("⅔", _always("2/3")),
        ("[⁺⁻₊₋]?(?:[⁰¹²³⁴⁵⁶⁷⁸⁹]+|[₀₁₂₃₄₅₆₇₈₉]+)", _word),
        ("¢", _always("cents")),
        ("£", _always("#")),
        ("[¤₠€\x80]", _always("$")),
        # Faces.
        (rf"{_EYES}[-o*']?{_MOUTH}(?![A-Za-z0-9])", _bracket),
        (rf"{_FACE_SIDE}_{_FACE_SIDE}|\({_FACE_SIDE}[_.]?{_FACE_SIDE}\)", _bracket),
        # Entities, white space.
        ("&(?i:lt);", _always("<")),
        ("&(?i:gt);", _always(">")),
        ("&(?i:amp);", _always("&")),
        ("&apos;", _always("'")),
        ('("|&quot;)[A-Za-z0-9$]', _always("``")),
        ("\"|''|&quot;", _always("''")),
        ("&(?i:ht|tl|ur|lr|qc|ql|qr|odq|cdq|quot|apos|#[0-9]+);", _verbatim),
        ("(?:[ \t\xa0\u2003]|&(?i:nbsp);)+", _always("")),
        (_CAPITALS, _ampersand),
        # Punctuation.
        ("-(?i:[lr][rcs]b)-", _word),
        (r"\.{3,5}|\.[ \xa0]\.(?:[ \xa0]\.){1,3}|[…\x85]", _always("...")),
        ("--+|[–—―\x96\x97]", _dashes),
        (r"[!?]+|\*+|(?:\\\*)+|@@+|##+|_+|<<|>>", _word),
        (r"[()]", _bracket),
        (r"\[", _always("-lsb-")),
        ("]", _always("-rsb-")),
        ("{", _always("-lcb-")),
        ("}", _always("-rcb-")),
        ("[`‘‛‹\x91’›\x92“«\x93”»\x94‚„‟]{1,2}", _quotes),
        ("(')[A-Za-z][^ \t\xa0]", _always("`")),
        (_CLITIC, _straight),
        ("[^ \t\xa0\u2003\0\u066b\u066c‐‑֊]", _word),
    )
]

# A run of letters, or of anything that holds no tag and after which the text goes on with a small
# letter, is cut the same way wherever it stands.
_CHUNK = re.compile(r"([A-Za-z]+) +(?![\t\xa0\u2003])|([!-%'-;=-~][^ <]*)(?: +(?=[a-z])| +$)")


def ptb_words(text: str) -> list[str]:
    """Cut a caption into lower-case Penn Treebank words, punctuation included.

    >>> ptb_words("A man's dog doesn't bark (much).")
    ['a', 'man', "'s", 'dog', 'does', "n't", 'bark', '-lrb-', 'much', '-rrb-', '.']
    """
    text = _utf16(text) + " "
    shape = text.translate(_SHAPES)
    words: list[str] = []
    place = 0
    while place < len(text):
        if chunk := _CHUNK.match(shape, place):
            words += _cut_chunk(text[place : chunk.end(chunk.lastindex or 0)])
            place = chunk.end()
        else:
            word, place = _next_word(text, shape, place)
            words += word
    return words


@lru_cache(maxsize=100_000)
def _cut_chunk(chunk: str) -> tuple[str, ...]:
    text = chunk + " "
    shape = text.translate(_SHAPES)
    words: list[str] = []
    place = 0
    while place < len(chunk):
        word, place = _next_word(text, shape, place)
        words += word
    return tuple(words)


def _next_word(text: str, shape: str, place: int) -> tuple[list[str], int]:
    """Apply the rule that reaches farthest: the word it gives, if any, and where it ends."""
    reached, end, write = place, place + 1, _always("")
    for pattern, candidate in _RULES:
        match = pattern.match(shape, place)
        if match and match.end() > reached:
            reached, end, write = match.end(), match.end(pattern.groups), candidate
    word = write(text[place:end]).lower()
    return [_from_utf16(word)] if word else [], end


def _utf16(text: str) -> str:
    """Split characters above U+FFFF into surrogates, as the original counts them."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(low | high << 8) for low, high in zip(units[::2], units[1::2], strict=True))


def _from_utf16(word: str) -> str:
    if word.isascii():
        return word
    return word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
