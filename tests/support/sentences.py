"""The sentences of pages, docstrings and comments, with their lengths in words.

An entry is prose that stands alone: a paragraph, an item of a list, a cell of a table, a title or an argument. No
sentence goes over the end of an entry. A span of code counts as one word, and the address of a link as none.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

_END = re.compile(r"(?<=[.!?])[)\"'*]*\s+")
#: A clause in the place of a subject, also behind the name of an argument.
_CLAUSE = re.compile(r"(?:[\w*.]+(?:, [\w*.]+)*: )?(?:What|Who|Of an?)\b")
_ITEM = re.compile(r"\s*(?:[*+-]|\d+\.)\s")
_TITLE = re.compile(r"\s*#+ ")
#: The line that opens a list of arguments in a docstring, and one of these.
_LIST = re.compile(r"\s*(?:Args|Attributes|Raises|Returns|Yields):$")
_ARGUMENT = re.compile(r"\s+\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*: ")


def unnamed_subjects(entries: list[str]) -> list[str]:
    """The sentences that begin with a clause in the place of a name, but for questions."""
    found = [sentence for sentence in _sentences(entries) if _CLAUSE.match(sentence)]
    return [sentence for sentence in found if not sentence.endswith("?")]


def long_sentences(entries: list[str], most: int) -> list[str]:
    """The sentences of more than so many words, each with the number in front."""
    counted = [
        (len(re.findall(r"\S*\w\S*", sentence)), sentence) for sentence in _sentences(entries)
    ]
    return [f"{words}: {sentence}" for words, sentence in counted if words > most]


def entries_of(text: str) -> list[str]:
    """The entries of a page or a docstring, without blocks of code."""
    entries: list[str] = []
    begins, listed = True, False
    for line in _without_code(text):
        listed = bool(_LIST.match(line)) or (listed and (not line or line[0] == " "))
        if not line.strip():
            begins = True
        elif line.lstrip().startswith("|"):
            entries += re.split(r"(?<!\\)\|", line)
        elif begins or _begins_entry(line, listed):
            entries.append(line)
            begins = bool(_TITLE.match(line) or _LIST.match(line))
        else:
            entries[-1] += f"\n{line}"
    return entries


def _begins_entry(line: str, listed: bool) -> bool:
    patterns = (_ITEM, _TITLE, _LIST, *((_ARGUMENT,) if listed else ()))
    return any(pattern.match(line) for pattern in patterns)


def docstrings(file: Path) -> Iterator[tuple[int, str]]:
    """The docstrings of a file, each with the line of what it documents."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def messages(file: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file that are messages: those that are raised, and others that give a reason and a remedy.

    A remedy is behind a semicolon. Pages of HTML have some, too. A value is one word.
    """
    tree = ast.parse(file.read_text())
    raised = {
        id(one) for node in ast.walk(tree) if isinstance(node, ast.Raise) for one in ast.walk(node)
    }
    no_message = set(_docstrings_and_parts(tree))
    for node in ast.walk(tree):
        text = None if id(node) in no_message else _text_of(node)
        if text and not text.startswith("<") and (";" in text or id(node) in raised):
            yield getattr(node, "lineno", 1), text


def _docstrings_and_parts(tree: ast.AST) -> Iterator[int]:
    """The texts that are docstrings, or parts of a formatted text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield id(node.value)
        if isinstance(node, ast.JoinedStr):
            yield from (id(part) for part in ast.walk(node) if part is not node)


def _text_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or "VALUE" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def rust_comments(file: Path) -> Iterator[tuple[int, str]]:
    """The comments of a file of Rust that have lines of their own, each with its first line."""
    lines = enumerate(file.read_text().splitlines(), 1)
    found = ((number, re.match(r"\s*//[/!]? ?(.*)", line)) for number, line in lines)
    return _runs((number, match[1]) for number, match in found if match)


def python_comments(file: Path) -> Iterator[tuple[int, str]]:
    """The comments of a file of Python that have lines of their own, each with its first line."""
    with file.open("rb") as code:
        tokens = [
            token for token in tokenize.tokenize(code.readline) if token.type == tokenize.COMMENT
        ]
    alone = (token for token in tokens if token.line.lstrip().startswith("#"))
    return _runs((token.start[0], re.sub(r"^#:? ?", "", token.string)) for token in alone)


def _runs(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Puts neighbouring lines together."""
    run: list[str] = []
    last = 0
    for number, line in lines:
        if run and number != last + 1:
            yield last - len(run) + 1, "\n".join(run)
            run = []
        run.append(line)
        last = number
    if run:
        yield last - len(run) + 1, "\n".join(run)


def _sentences(entries: list[str]) -> list[str]:
    return [sentence for entry in entries for sentence in _END.split(_plain(entry))]


def _plain(entry: str) -> str:
    """An entry on one line, with a word for each span of code, and links without their addresses."""
    text = re.sub(r"``.+?``|`[^`]+`", "CODE", entry, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    item = _ITEM.match(text)
    return " ".join(text[item.end() if item else 0 :].split())


def _without_code(text: str) -> Iterator[str]:
    """The lines outside of fences, of indented blocks, and of paragraphs that `click` prints as they are."""
    fence = code = False
    before = ""
    for line in re.sub(r"\x08\n(?:.+\n?)+", "", text).splitlines():
        is_fence = line.lstrip().startswith("```")
        fence ^= is_fence
        opens = before.endswith("::") or not before.strip()
        indented = line.startswith("    ") and (code or opens)
        code = indented or (code and not line.strip())
        yield "" if fence or is_fence or code else line
        before = line
