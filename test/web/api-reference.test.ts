// Tests the API reference at /docs in a real browser: it lists the operations of /openapi.json, and its "Try it out"
// button sends a request with the API key that the visitor enters.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { root } from '../e2e/monolith.js';
import { noBrowser, noneWrong, openBrowser, openWindow } from '../support/browser.js';
import { startScripted } from '../support/script-model.js';

test('the API reference lists all operations and sends requests', { skip: noBrowser, timeout: 110_000 }, async (t) => {
  const server = await startScripted();
  const browser = await openBrowser();
  t.teardown(async () => {
    await browser.close();
    await server.stop();
  });
  const window = await openWindow(browser, server.url);
  const { page } = window;
  await page.goto('/docs');
  // The page is large, and the machine may be busy.
  await page.locator('[id$=-createChatCompletion]').waitFor({ timeout: 60_000 });
  const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as { paths: Record<string, object> };
  const operations = Object.values(paths).flatMap((path) => Object.keys(path)).length;
  t.equal(await page.locator('.opblock').count(), operations);
  mkdirSync(join(root, 'build', 'screenshots'), { recursive: true });
  await page.screenshot({ path: join(root, 'build', 'screenshots', 'api-reference.png') });

  await page.getByRole('button', { name: 'Authorize' }).first().click();
  await page.locator('#auth-bearer-value').fill(server.key);
  await page.getByRole('button', { name: 'Apply credentials' }).first().click();
  await page.getByRole('button', { name: 'Close' }).first().click();
  const models = page.locator('[id$=-listModels]');
  await models.locator('.opblock-summary-control').click();
  await models.getByRole('button', { name: 'Try it out' }).click();
  await models.getByRole('button', { name: 'Execute' }).click();
  const response = models.locator('.live-responses-table');
  await response.getByText('clarke-1.0').first().waitFor();
  t.match(await response.innerText(), /200/);
  await noneWrong(t, window, 'API reference');
});
