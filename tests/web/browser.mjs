// SPDX-License-Identifier: Apache-2.0
// Chromium for tests in Python: one JSON command a line on standard input, one JSON reply a line on standard output.
import fs from "node:fs";
import readline from "node:readline";
import { createRequire } from "node:module";

const modules = process.argv[2], require = createRequire(modules + "/package.json");
const { chromium } = require("playwright-core");
const browser = await chromium.launch({ executablePath: process.argv[3], args: ["--no-sandbox", "--disable-gpu"], headless: true });
const pages = new Map();

const commands = {
  async open({ page, url, width = 1200, height = 800, theme = "light", cookiesOf, anyCertificate = false }) {
    const context = cookiesOf ? pages.get(cookiesOf).context : await browser.newContext({ viewport: { width, height }, colorScheme: theme, acceptDownloads: true, ignoreHTTPSErrors: anyCertificate });
    const tab = await context.newPage();
    const record = { tab, context, requests: [], problems: [] };
    tab.on("request", (r) => record.requests.push(r.url()));
    tab.on("console", (m) => { if (m.type() === "error") record.problems.push(m.text()); });
    tab.on("pageerror", (e) => record.problems.push("pageerror: " + e.message));
    tab.on("dialog", (d) => { record.problems.push("dialog: " + d.message()); d.dismiss(); });
    pages.set(page, record);
    const began = Date.now();
    await tab.goto(url, { waitUntil: "domcontentloaded" });
    return { ms: Date.now() - began };
  },
  async goto({ page, url }) { await pages.get(page).tab.goto(url); },
  async eval({ page, code }) { return await pages.get(page).tab.evaluate(code); },
  async wait({ page, code, seconds = 60 }) { // by the debugger: the page's own policy forbids code from strings
    const { tab } = pages.get(page), end = Date.now() + seconds * 1000;
    while (!(await tab.evaluate(`Boolean(${code})`).catch(() => false))) {
      if (Date.now() > end) throw new Error("waited in vain; the page says:\n" + (await tab.evaluate("document.body.innerText")).slice(0, 3000));
      await new Promise((done) => setTimeout(done, 50));
    }
  },
  async click({ page, selector, held = 0 }) { await pages.get(page).tab.locator(selector).first().click({ timeout: 30000, delay: held }); }, // held: ms
  async type({ page, selector, text }) { await pages.get(page).tab.locator(selector).first().fill(text); },
  async press({ page, key }) { await pages.get(page).tab.keyboard.press(key); },
  async shot({ page, path }) { await pages.get(page).tab.screenshot({ path }); },
  async look({ page }) { const { requests, problems } = pages.get(page); return { requests, problems }; },
  async cookies({ page }) { return await pages.get(page).context.cookies(); },
  async axe({ page }) {
    const { tab } = pages.get(page), client = await tab.context().newCDPSession(tab);
    await client.send("Runtime.evaluate", { expression: fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8") }); // past the page's policy
    const result = await client.send("Runtime.evaluate", { awaitPromise: true, returnByValue: true, expression: "axe.run(document).then(r => r.violations.map(v => ({id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.target.join(' ') + ': ' + n.failureSummary).slice(0, 5)})))" });
    if (result.exceptionDetails) throw new Error(JSON.stringify(result.exceptionDetails).slice(0, 2000));
    return result.result.value;
  },
  async reset() { for (const context of browser.contexts()) await context.close(); pages.clear(); },
  async close({ page }) { const { tab } = pages.get(page); await tab.close(); },
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    console.log(JSON.stringify({ ok: true, value: (await commands[command.do](command)) ?? null }));
  } catch (e) {
    console.log(JSON.stringify({ ok: false, error: String(e.message || e) }));
  }
}
await browser.close();
