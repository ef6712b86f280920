"""The first minute of a newcomer: `make lab`, open the address, see lesson 00, nothing in the way."""

import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.needs("chromium")


def test_lesson_opens_with_nothing_in_the_way(lab, page):
    page.goto(lab)
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=60_000)
    page.wait_for_selector("text=/Python 3.*Idle/", timeout=60_000)
    page.wait_for_selector("[role=tab][aria-selected=true] >> text=00_start_here.ipynb")  # the tab gets its name last
    page.wait_for_timeout(3000)  # the news prompt used to come a moment after the page
    assert page.locator(".jp-Dialog, .Toastify__toast").all_inner_texts() == []
    assert page.problems == []


def test_without_the_token_there_is_no_way_in(lab):
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(lab.split("/lab")[0] + "/api/contents", timeout=10)
