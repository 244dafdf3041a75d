// Opens a report in headless Chromium, clicks it, and checks it with axe.
// Usage: node check.mjs REPORT.html CHROMIUM [SCREENSHOT_DIR]
// Prints one JSON object; "problems" lists the faults found.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [report, executablePath, shots] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const profile = mkdtempSync(join(tmpdir(), "epbench-browser-"));
const problems = [];
const need = (ok, what) => { if (!ok) problems.push(what); };

const patience = 480_000; // limit of each wait in ms; a busy host is slow
const browser = await chromium.launchPersistentContext(profile, {
  executablePath,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  viewport: { width: 1280, height: 900 },
  timeout: patience,
});
const out = { problems, axe: {} };
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(patience);
  page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") problems.push(`console: ${m.text()}`); });
  page.on("pageerror", (e) => problems.push(`script: ${e.message}`));
  page.on("request", (r) => { if (!r.url().startsWith("file:") && !r.url().startsWith("data:")) problems.push(`network: ${r.url()}`); });
  page.on("dialog", (d) => { problems.push(`dialog: ${d.message()}`); d.dismiss(); });

  // The number of DOM nodes decides how long a browser takes to open the page. Unlike a time, it is the same on
  // every machine.
  const tools = await browser.newCDPSession(page);
  await tools.send("Performance.enable");
  await page.goto(pathToFileURL(report).href, { waitUntil: "load" });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const { metrics } = await tools.send("Performance.getMetrics");
  out.nodes = metrics.find((m) => m.name === "Nodes").value;
  out.rows = await page.locator("#trials tbody tr").count();

  await keyboard(page);
  await sorting(page);
  await filtering(page);
  await reading(page);
  // Keep 30 rows of each table and one picture of each group: for the whole page axe would take minutes.
  await page.evaluate(() => {
    for (const t of document.querySelectorAll("tbody")) Array.from(t.rows).slice(30).forEach((r) => r.remove());
    for (const f of document.querySelectorAll(".figures")) Array.from(f.children).slice(1).forEach((p) => p.remove());
  });
  for (const [name, scheme, width] of [["light", "light", 1280], ["dark", "dark", 1280], ["phone", "light", 375]]) {
    await page.setViewportSize({ width, height: width < 500 ? 812 : 900 });
    await page.emulateMedia({ colorScheme: scheme });
    const began = Date.now();
    out.axe[name] = await audit(page);
    out[name + "AuditMs"] = Date.now() - began;
    if (width < 500) {
      const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      need(over <= 0, `the page is ${over} px wider than a phone`);
    }
    if (shots) await page.screenshot({ path: join(shots, `${name}.png`) });
  }
  await page.emulateMedia({ media: "print" });
  need(!(await page.locator(".filter").first().isVisible()), "filters are printed");
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
console.log(JSON.stringify(out));

// sorting checks that the last column of numbers of the table of trials sorts both ways.
async function sorting(page) {
  const head = page.locator("#trials th.n").last();
  const index = await head.evaluate((h) => h.cellIndex);
  const values = () => page.locator("#trials tbody tr").evaluateAll((rows, i) => rows.map((r) => parseFloat(r.cells[i].textContent)), index);
  for (const [order, sign] of [["ascending", 1], ["descending", -1]]) {
    await head.getByRole("button").click();
    const got = await values();
    need((await head.getAttribute("aria-sort")) === order, `aria-sort is not ${order}`);
    const bad = got.findIndex((v, i) => i > 0 && !(sign * (v - got[i - 1]) >= 0));
    need(bad < 0, `not sorted ${order}: ${got[bad - 1]} before ${got[bad]}`);
  }
  const other = page.locator("#trials th").first();
  await other.getByRole("button").click();
  need((await page.locator("#trials th[aria-sort]").count()) === 1, "two columns have aria-sort");
}

// filtering checks that the filter of the table of trials hides and shows the right rows.
async function filtering(page) {
  const input = page.locator("#trials input[type=search]");
  const rows = page.locator("#trials tbody tr");
  const all = await rows.count();
  const word = (await rows.first().locator("td").first().textContent()).trim();
  // The page filters shortly after the last key, and then announces the count of rows.
  const filter = async (text) => {
    await page.evaluate(() => { document.getElementById("status").textContent = ""; });
    await input.fill(text);
    await page.waitForFunction(() => document.getElementById("status").textContent.includes(" of "));
  };
  await filter(word);
  const shown = await rows.evaluateAll((rs) => rs.filter((r) => !r.hidden).map((r) => r.textContent));
  need(shown.length > 0 && shown.every((t) => t.toLowerCase().includes(word.toLowerCase())), `filter ${word} shows other rows`);
  await filter("no such words anywhere");
  need((await rows.evaluateAll((rs) => rs.filter((r) => !r.hidden).length)) === 0, "filter hides nothing");
  need((await page.locator("#status").textContent()).includes(`0 of ${all}`), "the count is not announced");
  await filter("");
  need((await rows.evaluateAll((rs) => rs.filter((r) => !r.hidden).length)) === all, "clearing the filter does not bring all rows back");
}

// keyboard checks that Tab reaches a sort button, that Enter presses it, and that the focus is
// visible.
async function keyboard(page) {
  await page.keyboard.press("Tab");
  need(await page.evaluate(() => document.activeElement.classList.contains("skip")), "the first stop is not the skip link");
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement.matches("th button"))) break;
  }
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  need(outline !== "none", "the focus on a sort button is invisible");
  await page.keyboard.press("Enter");
  need(await page.evaluate(() => document.activeElement.closest("th").hasAttribute("aria-sort")), "Enter does not sort");
}

// reading checks that the page begins with the gain and the launch settings, and that each
// picture has a description in words.
async function reading(page) {
  const first = await page.locator("main section").evaluateAll((all) => all.slice(0, 2).map((s) => s.id).join(" "));
  need(first === "gain launch", `the page begins with ${first}, not with gain and launch`);
  need((await page.locator("h1").count()) === 1, "the page needs exactly one h1");
  const silent = await page.locator("figure svg").evaluateAll((all) => all.filter((s) => !s.getAttribute("aria-label")).length);
  need(silent === 0, `${silent} pictures have no description`);
}

// audit runs axe, and adds its serious findings to the problems.
async function audit(page) {
  await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const v of result.violations) {
    const line = `axe ${v.impact}: ${v.id}: ${v.nodes.length} nodes, first ${v.nodes[0].html.slice(0, 120)}`;
    if (v.impact === "serious" || v.impact === "critical") problems.push(line);
  }
  return result.violations.map((v) => `${v.impact} ${v.id} ${v.nodes.length}`);
}
