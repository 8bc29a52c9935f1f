// A real headless browser for tests of the page: the machine's Chromium, driven by playwright-core. Every page
// fails its test if it asks anything of another host, breaks the content security policy, throws, or scrolls sideways.

import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';
import type { Test } from 'tap';
import { root } from '../e2e/monolith.js';

export type { Browser, BrowserContext, Locator, Page } from 'playwright-core';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
];

const executable = process.env['CHROMIUM'] ?? PLACES.find((path) => existsSync(path));

/** For `{ skip: notBuilt }` of tests that need the page, but no browser. */
export const notBuilt: string | false = existsSync(join(root, 'dist', 'web', 'index.html'))
  ? false
  : 'the page is not built (npm run build:web)';

/** Why tests in a browser cannot run here, for `{ skip: noBrowser }`; false if they can. */
export const noBrowser: string | false =
  executable === undefined ? 'no Chromium on this machine (apt-get install chromium, or set CHROMIUM)' : notBuilt;

export const WIDE = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

export interface Opened {
  context: BrowserContext;
  page: Page;
  /** What went wrong so far: errors of scripts, of the policy, requests beyond the server, failed ones. */
  problems: string[];
}

export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: executable as string, headless: true, args: ARGUMENTS });
}

/** A person's window on the server at `url`: cookies of its own. */
export async function openWindow(
  browser: Browser,
  url: string,
  options: {
    viewport?: { width: number; height: number };
    colorScheme?: 'light' | 'dark';
    reducedMotion?: 'reduce' | 'no-preference';
  } = {},
): Promise<Opened> {
  const context = await browser.newContext({
    baseURL: url,
    viewport: options.viewport ?? WIDE,
    colorScheme: options.colorScheme ?? 'light',
    reducedMotion: options.reducedMotion ?? 'reduce',
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
  });
  context.setDefaultTimeout(20_000); // CI machines are busy
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`));
  page.on('console', (message) => {
    // What the server refuses with a status is part of many tests; the browser logs each.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      problems.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const { origin, protocol } = new URL(request.url());
    if (protocol !== 'blob:' && protocol !== 'data:' && origin !== new URL(url).origin)
      problems.push(`request to ${request.url()}`);
  });
  return { context, page, problems };
}

/** A browser of the test's own with a window on the server at `url`, in which whoever has the session `cookie` is signed in. */
export async function openSignedIn(
  t: Test,
  url: string,
  cookie: string | null,
  options: Parameters<typeof openWindow>[2] = {},
): Promise<Opened & { browser: Browser }> {
  const browser = await openBrowser();
  t.teardown(() => browser.close());
  const opened = await openWindow(browser, url, options);
  await signIn(opened, url, cookie);
  return { ...opened, browser };
}

export async function signIn({ context }: Opened, url: string, cookie: string | null): Promise<void> {
  await context.addCookies([{ name: 'sid', value: cookie ?? '', url, httpOnly: true, sameSite: 'Lax' }]);
}

/** Widths of content beyond the window's: 0 unless the page scrolls sideways. */
export async function overflow(page: Page): Promise<number> {
  return await page.evaluate(
    'Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)',
  ); // a reserved scrollbar makes it negative
}

const SCREENSHOTS = join(root, 'build', 'screenshots');
const wanted = (process.env['MONOLITH_TEST_SCREENSHOTS'] ?? '') !== '';

/**
 * If MONOLITH_TEST_SCREENSHOTS is set, pictures of the whole page in both colour schemes and both widths:
 * build/screenshots/NAME-wide-light.png and so on. `few`: wide in light and narrow in dark alone, for dialogs and
 * small states.
 */
export async function screenshots(
  page: Page,
  name: string,
  options: { fullPage?: boolean; few?: boolean } = {},
): Promise<void> {
  if (!wanted) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  const before = page.viewportSize() ?? WIDE;
  for (const [width, viewport] of [
    ['wide', WIDE],
    ['phone', PHONE],
  ] as const) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ['light', 'dark'] as const) {
      if (options.few === true && (width === 'wide') !== (colorScheme === 'light')) continue;
      await page.emulateMedia({ colorScheme });
      await page.evaluate('window.scrollTo(0, 0)');
      await page.waitForTimeout(60); // charts are drawn anew
      await page.screenshot({
        path: join(SCREENSHOTS, `${name}-${width}-${colorScheme}.png`),
        fullPage: options.fullPage ?? true,
        animations: 'disabled',
      });
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize(before);
}

/** Says what is wrong with what a window shows, if anything. */
export async function noneWrong(t: Test, { page, problems }: Opened, where: string): Promise<void> {
  t.same(problems, [], `${where}: nothing went wrong in the browser`);
  t.equal(await overflow(page), 0, `${where}: no horizontal scrolling`);
}

/** To a page by its link in the navigation. */
export async function go(page: Page, link: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: link, exact: true }).click();
  await page.getByRole('heading', { level: 1, name: link }).waitFor();
}

export const hasFocus = (element: Locator): Promise<boolean> =>
  element.evaluate((node) => (node as unknown as { matches(selector: string): boolean }).matches(':focus'));
