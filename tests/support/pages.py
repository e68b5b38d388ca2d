"""Reading a page of HTML without a browser."""

from __future__ import annotations

from html.parser import HTMLParser

_WITHOUT_END = ("meta", "br", "link", "img", "input", "hr")


class Page(HTMLParser):
    """A page whose elements are all closed in order; its elements, attributes and text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        if self._open:
            raise ValueError(f"not closed: {self._open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _WITHOUT_END:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            raise ValueError(f"</{tag}> closes another element, at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def assert_self_contained(page: Page) -> None:
    """Nothing runs, and nothing is fetched from elsewhere."""
    assert not {tag for tag, _attributes in page.elements} & {"script", "link", "img", "iframe", "object", "form"}
    names = {name for _tag, attributes in page.elements for name in attributes}
    assert not names & {"src", "href", "srcset"}
    assert not [name for name in names if name.startswith("on")]
    for address in ("http:", "https:", "url(", "@import"):
        assert address not in page.source
