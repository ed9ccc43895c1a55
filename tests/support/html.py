"""What a browser makes of a page."""

from __future__ import annotations

from html.parser import HTMLParser


class Seen(HTMLParser):
    """What a browser would take for elements, attributes and text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.ids, self.text = [], [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.text += data


class Cells(HTMLParser):
    """The texts of every table's body, [tables][rows][cells]."""

    def __init__(self, page):
        super().__init__()
        self.tables, self._in_cell, self._begins_row = [], False, True
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "tbody":
            self.tables.append([])
        elif tag == "td":
            if self._begins_row:
                self.tables[-1].append([])
            self.tables[-1][-1].append("")
            self._begins_row = False
            self._in_cell = True

    def handle_endtag(self, tag):
        if tag == "td":
            self._in_cell = False
        elif tag == "tr":
            self._begins_row = True

    def handle_data(self, data):
        if self._in_cell:
            self.tables[-1][-1][-1] += data
