#!/usr/bin/env python3
"""Checks that every local link in the HTML of the book leads to a file, and to an id in it.

usage: check-links.py FOLDER
"""
import os
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if (tag, name) in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")) and value:
                self.links.append((self.getpos()[0], value))


def main():
    folder = sys.argv[1]
    # print.html repeats all pages, and 404.html has no place of its own.
    names = [name for name in os.listdir(folder) if name.endswith(".html") and name not in ("print.html", "404.html")]
    pages = {name: Page(os.path.join(folder, name)) for name in names}
    wrong = count = 0
    for name, page in sorted(pages.items()):
        for line, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = os.path.normpath(unquote(parts.path)) if parts.path else name
            if not os.path.exists(os.path.join(folder, target)):
                problem = f"there is no {target}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                problem = f"{target} has no id {unquote(parts.fragment)}"
            else:
                continue
            print(f"{name}:{line}: {link}: {problem}", file=sys.stderr)
            wrong += 1
    print(f"{len(pages)} pages, {count} links, {wrong} broken")
    sys.exit(1 if wrong else 0)


main()
