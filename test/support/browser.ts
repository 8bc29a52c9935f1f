// A real headless browser for page tests: the machine's Chromium, driven by playwright-core. A test fails if its page
// contacts another host, violates the content security policy, throws an error, scrolls sideways, or fails an
// accessibility check.

import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core';
import type { Test } from 'tap';
import { root } from '../e2e/monolith.js';
import { accessibilityProblems } from './accessibility.js';

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

/**
 * The reason to skip tests that need the built page but no browser (`{ skip: notBuilt }`); false if the page is built.
 */
export const notBuilt: string | false = existsSync(join(root, 'dist', 'web', 'index.html'))
  ? false
  : 'the page is not built (npm run build:web)';

/** The reason to skip browser tests on this machine (`{ skip: noBrowser }`); false if they can run. */
export const noBrowser: string | false =
  executable === undefined ? 'no Chromium on this machine (apt-get install chromium, or set CHROMIUM)' : notBuilt;

export const WIDE = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

export interface Opened {
  context: BrowserContext;
  page: Page;
  /**
   * Problems recorded so far: script errors, policy violations, failed requests, requests to other hosts and failed
   * accessibility checks.
   */
  problems: string[];
}

const problemsOf = new WeakMap<Page, string[]>();

export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: executable as string, headless: true, args: ARGUMENTS });
}

/** Opens a browser window on the server at `url`, with its own cookies. */
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
  context.setDefaultTimeout(20_000); // long, because CI machines are busy
  const page = await context.newPage();
  const problems: string[] = [];
  problemsOf.set(page, problems);
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`));
  page.on('console', (message) => {
    // The browser logs every error status. Tests provoke error responses on purpose, so these log entries do not count
    // as problems.
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

/** Starts a browser for one test and opens a window on the server at `url`, signed in with the session `cookie`. */
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

/** Returns by how many pixels the content is wider than the window; 0 unless the page scrolls sideways. */
export async function overflow(page: Page): Promise<number> {
  return await page.evaluate(
    'Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)',
  ); // negative if space is reserved for a scrollbar
}

const SCREENSHOTS = join(root, 'build', 'screenshots');
const wanted = (process.env['MONOLITH_TEST_SCREENSHOTS'] ?? '') !== '';

/**
 * Checks the accessibility of the page in the light color scheme, wide and narrow, and adds what fails to the window's
 * problems. With `few`, for dialogs and small states, checks only the wide page.
 *
 * If MONOLITH_TEST_SCREENSHOTS is set, also saves screenshots of the whole page in both color schemes and both widths,
 * as build/screenshots/NAME-wide-light.png and so on. With `few`, saves only wide in light and narrow in dark.
 */
export async function checkLook(
  page: Page,
  name: string,
  options: { fullPage?: boolean; few?: boolean } = {},
): Promise<void> {
  const before = page.viewportSize() ?? WIDE;
  for (const [width, viewport] of [
    ['wide', WIDE],
    ['phone', PHONE],
  ] as const) {
    if (width === 'phone' && options.few === true && !wanted) continue;
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme: 'light' });
    if (width === 'wide' || options.few !== true)
      problemsOf.get(page)?.push(...(await accessibilityProblems(page, `${name} (${width})`)));
    if (wanted) await screenshots(page, `${name}-${width}`, options);
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize(before);
}

async function screenshots(page: Page, name: string, options: { fullPage?: boolean; few?: boolean }): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true });
  for (const colorScheme of ['light', 'dark'] as const) {
    if (options.few === true && name.endsWith('-wide') !== (colorScheme === 'light')) continue;
    await page.emulateMedia({ colorScheme });
    await page.evaluate('window.scrollTo(0, 0)');
    await page.waitForTimeout(60); // charts are redrawn after a resize
    await page.screenshot({
      path: join(SCREENSHOTS, `${name}-${colorScheme}.png`),
      fullPage: options.fullPage ?? true,
      animations: 'disabled',
    });
  }
}

/** Fails the test if the window has recorded a problem or scrolls sideways. */
export async function noneWrong(t: Test, { page, problems }: Opened, where: string): Promise<void> {
  t.same(problems, [], `${where}: no errors in the browser`);
  t.equal(await overflow(page), 0, `${where}: no horizontal scrolling`);
}

/** Opens a page through its navigation link. If the page belongs to the other area, switches to that area first. */
export async function go(page: Page, link: string): Promise<void> {
  const found = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: link, exact: true });
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').first().waitFor();
  if ((await found.count()) === 0)
    await page.getByRole('navigation', { name: 'Area' }).locator('a:not([aria-current])').click();
  await found.click();
  await page.getByRole('heading', { level: 1, name: link }).waitFor();
}

export const hasFocus = (element: Locator): Promise<boolean> =>
  element.evaluate((node) => (node as unknown as { matches(selector: string): boolean }).matches(':focus'));
