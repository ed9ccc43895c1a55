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
