#!/usr/bin/env python3
"""Preprocessor of mdBook: includes documents of the repository and makes their links work in the book.

Links in chapters and documents are relative to their file, as a reader of the repository follows them. A link to a
document that is a page of the book leads to that page. A link to any other file becomes its text and the file's path.
"""
import json
import os
import re
import sys

INCLUDE = re.compile(r"^\{\{#include ([^}:]+)\}\}$", re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def chapters(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            yield chapter
            yield from chapters(chapter["sub_items"])


def rewrite(text, source, page, pages, root):
    """Rewrites the links of `text`, which stands in file `source`, for chapter `page`."""

    def link(match):
        image, label, target = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group(0)
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if file in pages:
            path = os.path.relpath(pages[file], os.path.dirname(page) or ".")
            return f"{image}[{label}]({path}{'#' + anchor if anchor else ''})"
        if file.startswith(os.path.join(root, "docs/book/src") + os.sep):
            return match.group(0)
        # The book has the figures of the documents, by a symbolic link in its source.
        figures = os.path.join(root, "docs/figures") + os.sep
        if image and file.startswith(figures):
            return f"![{label}]({os.path.join('figures', file.removeprefix(figures))})"
        name = os.path.relpath(file, root)
        return f"`{name}`" if label.strip("`") == name else f"{label} (`{name}`)"

    # A link may be broken across lines; code is left alone.
    parts = FENCED.split(text)
    return "".join(part if index % 2 else LINK.sub(link, part) for index, part in enumerate(parts))


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    source_folder = os.path.join(context["root"], context["config"]["book"].get("src", "src"))
    root = os.path.normpath(os.path.join(context["root"], "../.."))
    key = "items" if "items" in book else "sections"
    # A document belongs to the page that includes it.
    pages = {}
    found = [chapter for chapter in chapters(book[key]) if chapter["path"]]
    for chapter in found:
        file = os.path.normpath(os.path.join(source_folder, chapter["path"]))
        pages[file] = chapter["path"]
        for name in INCLUDE.findall(chapter["content"]):
            pages.setdefault(os.path.normpath(os.path.join(os.path.dirname(file), name)), chapter["path"])
    for chapter in found:
        file = os.path.join(source_folder, chapter["path"])

        def include(match):
            document = os.path.normpath(os.path.join(os.path.dirname(file), match.group(1)))
            with open(document, encoding="utf-8") as opened:
                return rewrite(opened.read(), document, chapter["path"], pages, root)

        parts, last = [], 0
        for match in INCLUDE.finditer(chapter["content"]):
            parts.append(rewrite(chapter["content"][last : match.start()], file, chapter["path"], pages, root))
            parts.append(include(match))
            last = match.end()
        parts.append(rewrite(chapter["content"][last:], file, chapter["path"], pages, root))
        chapter["content"] = "".join(parts)
    json.dump(book, sys.stdout)


main()
