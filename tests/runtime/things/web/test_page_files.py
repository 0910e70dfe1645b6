"""The files of the page: served to everybody, under a policy that lets in nothing from elsewhere."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from appbackplane.runtime.things.web import page_files
from appbackplane.runtime.things.web.page_files import Page, is_public

FOLDER = Path(page_files.__file__).with_name("page")
FILES = sorted(FOLDER.iterdir())


def answered(file: str | None, **headers: str) -> web.Response:
    """The answer for a file; None: the page itself."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    request = make_mocked_request("GET", "/", headers=named, match_info={} if file is None else {"file": file})
    return asyncio.run(Page().answer(request))


def test_the_page_and_all_that_it_loads_is_served() -> None:
    """A file that is named, but not packed, is a page that stays empty."""
    html = answered(None)
    assert html.content_type == "text/html" and isinstance(html.body, bytes)
    named = set(re.findall(r'(?:href|src)="page/([^"]+)"', html.body.decode()))
    for each in FILES:
        if each.suffix == ".js":
            named |= set(re.findall(r'from "\./([^"]+)"', each.read_text()))
    assert named == {each.name for each in FILES} - {"index.html"}
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for name in named:
        answer = answered(name)
        assert answer.content_type == kinds[Path(name).suffix] and answer.charset == "utf-8"


def test_a_file_that_has_not_changed_is_not_sent_again() -> None:
    """A phone has it already."""
    first = answered("main.js")
    again = answered("main.js", If_None_Match=first.headers["ETag"])
    assert (again.status, again.body) == (304, None) and answered("main.js", If_None_Match='"other"').status == 200


@pytest.mark.parametrize("file", ["", "none.js", "../page_files.py", "__init__.py", "index.html/"])
def test_there_are_no_other_files(file: str) -> None:
    """Only those of the folder, by their names."""
    with pytest.raises(web.HTTPNotFound):
        answered(file)


def test_the_policy_lets_in_no_scripts_but_its_own() -> None:
    """The names and values of things come from anywhere."""
    headers = answered(None).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "script-src 'self'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and headers["X-Content-Type-Options"] == "nosniff"
    html = (FOLDER / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", html) == []
    for each in FILES:
        text = each.read_text()
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "eval(" not in text, each.name
        hosts = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text))
        assert hosts <= {"http://www.w3.org"}, f"{each.name} names another host"  # the name space of SVG


@pytest.mark.parametrize(
    ("path", "is_so"),
    [("/", True), ("/page/main.js", True), ("/page", False), ("/things", False), ("/live", False), ("//", False)],
)
def test_the_page_alone_is_public(path: str, is_so: bool) -> None:
    """All that is asked of the system needs a token."""
    assert is_public(path) is is_so
