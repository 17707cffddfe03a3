# SPDX-License-Identifier: Apache-2.0
"""One story: a run asks for three hosts and a command, and a person answers from the page, the paired phone, the chat and the terminal. Every view says the same at
every moment; afterwards the timeline and the report show it, and the log is whole."""
import json

import pytest

from kit.browser import Browser, modules
from kit.chats import APP_TOKEN, SERVICES, TOKEN
from kit.control import wait_for
from kit.dashboard import Dashboard
from test_ui_pair import HERE, link_of

NAMES = ["one.test", "two.test", "three.test"]
MODULES = modules()
pytestmark = pytest.mark.skipif(MODULES is None, reason="Playwright comes from npm, which cannot be reached here")


@pytest.fixture
def hosts(home):
    path = home / "hosts"
    path.write_text("".join(f"127.0.0.1 {n}\n" for n in NAMES))
    return path


@pytest.fixture
def browser(tmp_path, nothing_left_behind):
    browser = Browser(MODULES, tmp_path)
    yield browser
    browser.close()


class Views:
    """What each of them says is open."""

    def __init__(self, browser, bailey, chat):
        self.browser, self.bailey, self.chat = browser, bailey, chat

    def terminal(self):
        return [q.get("host") or q.get("command") for q in json.loads(self.bailey("pending", "--json").check().text)]

    def page(self, name):
        return [text.split(":")[0] for text in self.browser("eval", name, code="[...document.querySelectorAll('.question .target')].map(t => t.textContent)")]

    def room(self):
        """The questions of the room that nobody has closed there."""
        asked = {p.split("Code ")[1][:8]: p for p in self.chat.posts if "Code " in p}
        return [post for code, post in asked.items() if not any(code in p and "by control" in p for p in self.chat.posts)]

    def agree(self, what):
        def same():
            shown = [self.terminal(), self.page("one"), self.page("phone")]
            return all(len(s) == 1 and s[0].startswith(what) for s in shown) and len(self.room()) == 1 and what in self.room()[0]
        wait_for(same, f"every view to say {what}")
        for name in ("one", "phone"):
            assert self.browser("eval", name, code="document.title").startswith("(1)")

    def agree_on_nothing(self):
        wait_for(lambda: not self.terminal() and not self.page("one") and not self.page("phone") and not self.room(), "every view to be empty")


@pytest.mark.pages
@pytest.mark.parametrize("service", ["zulip"])
def test_the_story(service, start, config, closing, home, work, hosts, origin, bailey, browser):
    chat = closing(SERVICES[service]())
    config.write_text(json.dumps({"approval": {"chat": {"url": chat.url, "token": "env:CHAT_TOKEN", **chat.settings}}}))
    chat.process = start(["bailey", "chat"], env={"CHAT_TOKEN": TOKEN, "CHAT_APP_TOKEN": APP_TOKEN})
    ui = Dashboard(start)
    pairing = start(["bailey", "ui", "--no-open", *HERE])
    browser("open", "one", url=ui.link)
    browser("open", "phone", url=link_of(pairing), width=390, height=800, anyCertificate=True)
    for name in ("one", "phone"):
        browser("wait", name, code="document.querySelector('.live.on')")
        browser("eval", name, code="location.hash = '#/questions'")
    wait_for(lambda: chat.requests, "the chat")
    views = Views(browser, bailey, chat)
    views.agree_on_nothing()

    fetch = "; ".join(f"curl -s -m 120 http://{n}:{origin.port}/{n} || echo no" for n in NAMES)
    child = start(["bailey", "exec", "--ask", "control", "--ask-timeout", "10m", "--hosts", hosts, "--allow-private", f"127.0.0.1:{origin.port}", f"{fetch}; sudo -n true; true"], cwd=work)
    views.agree("curl -s")
    bailey("allow", "--command", json.loads(bailey("pending", "--json").check().text)[0]["sandbox"]).check()
    views.agree("one.test")
    browser("click", "one", selector="button:has-text('Allow once')")
    views.agree("two.test")
    browser("click", "phone", selector="button:has-text('Deny once')")
    views.agree("three.test")
    chat.say(chat.alice, f"/allow {chat.code()}")
    views.agree_on_nothing()
    child.wait().check()
    assert [r.split()[1] for r in origin.requests()] == [b"/one.test", b"/three.test"]

    report = json.loads(bailey("report", "--json").check().text)
    got = [(q["about"].split(":")[0], q["answer"], q["by"]) for q in report["questions"] if q["about"].split(":")[0] in NAMES]
    assert got[:2] == [("one.test", "allow", "control (bailey ui)"), ("two.test", "deny", "control (bailey ui paired device)")], report["questions"]
    assert got[2][:2] == ("three.test", "allow") and got[2][2].startswith("control (bailey chat ")
    text = bailey("report", "--md").check().text
    for who in ("bailey ui paired device", "bailey chat", "bailey allow", *NAMES, "sudo -n true"):
        assert who in text, who
    assert bailey("log", "verify").status == 0
    browser("eval", "one", code=f"location.hash = '#/run/{report['run']}'")
    browser("wait", "one", code="document.querySelectorAll('svg.lanes circle').length > 5")
    shown = browser.text("one")
    assert "log is whole" in shown and report["audit"]["last_sha256"] in shown
    for who in ("control (bailey ui)", "control (bailey ui paired device)", "control (bailey chat", "control (bailey allow)"):
        assert who in shown, who
