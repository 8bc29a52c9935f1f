// Tests the pages that operators and members use daily, in a real browser against a real server: the request log, usage
// and the live view.
import { test } from 'tap';
import OpenAI from 'openai';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import { eventually } from '../e2e/monolith.js';
import { go, hasFocus, noBrowser, noneWrong, openSignedIn, PHONE, checkLook, WIDE } from '../support/browser.js';
import { tabThrough } from '../support/keyboard.js';
import { openOwned } from '../support/owned-server.js';

test('the request log, usage and live pages work', { skip: noBrowser, timeout: 300_000 }, async (t) => {
  const {
    server: { url },
    owner,
    organization,
    close,
  } = await openOwned();
  t.teardown(close);
  const window = await openSignedIn(t, url, owner.cookie);
  const { page } = window;
  const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row');
  const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, {
    name: 'production',
  });
  const openai = new OpenAI({ apiKey: secret, baseURL: `${url}/v1`, maxRetries: 0 });
  const ask = (content: string, model = 'tycho-1.0'): Promise<unknown> =>
    openai.chat.completions
      .create({ model, messages: [{ role: 'user', content }], temperature: 0.7 })
      .catch(() => null);

  await t.test('the request log shows each outcome, can be filtered and opens details', async (t) => {
    await page.goto('/dashboard/requests');
    await page.getByText('No requests yet').waitFor();
    await checkLook(page, 'requests-empty', { few: true });
    for (let at = 0; at < 6; at++) await ask(at % 2 === 0 ? 'A: one' : 'H: how much?');
    await ask('A', 'nothing-here');
    await page.waitForTimeout(500);
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('refused 404').waitFor();
    t.equal(await rows.count(), 8, 'the table has seven requests and a header row');
    await checkLook(page, 'requests');
    await page.getByLabel('Outcome').selectOption('refused');
    t.ok(await eventually(async () => (await rows.count()) === 2), 'the filter leaves only the refused request');
    await page.getByLabel('Outcome').selectOption('cancelled');
    await page.getByText('No matching requests').waitFor();
    await page.getByLabel('Outcome').selectOption('');
    t.same(await tabThrough(page), [], 'Tab reaches every control and row of the request log');
    const row = rows.nth(2).getByRole('link');
    await row.focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Request' });
    await dialog.getByRole('region', { name: 'Timings' }).getByText('Decode').waitFor();
    await dialog.getByText('temperature').waitFor();
    await dialog.getByText('Prompts and responses are not stored.').waitFor();
    await checkLook(page, 'request', { fullPage: false });
    t.same(await tabThrough(page), [], 'Tab reaches every control of the dialog');
    t.equal(await dialog.locator(':focus').count(), 1, 'the focus stays in the dialog');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    t.ok(await hasFocus(row), 'the focus returns to the row');
    await noneWrong(t, window, 'requests');
  });

  await t.test('the address of the request log holds its filters and the opened request', async (t) => {
    await page.goto('/dashboard/requests');
    await page.getByLabel('Outcome').selectOption('refused');
    await page.getByRole('radio', { name: '1 h' }).check({ force: true });
    await page.waitForURL(/outcome=refused&range=1h/);
    await rows.nth(1).getByRole('link').click();
    const dialog = page.getByRole('dialog', { name: 'Request' });
    await dialog.getByText('There is no model named "nothing-here" on this server.').waitFor();
    await dialog.getByText(/^OpenAI\/JS/).waitFor();
    await checkLook(page, 'request-refused', { fullPage: false });
    const shared = new URL(page.url());
    const id = shared.searchParams.get('request') as string;
    const clean = `/dashboard/requests?org=${organization.id}&request=${id}`;
    await page.goto(clean);
    await dialog.getByText('nothing-here', { exact: true }).waitFor();
    await page.waitForURL((url) => !url.searchParams.has('org'));
    await page.keyboard.press('Escape');
    await page.waitForURL((url) => !url.searchParams.has('request'));
    await page.goto('/dashboard/requests?org=org_000000000000000000000000&request=1.req_x');
    await page.getByText('This request belongs to another organization').waitFor();
    await page.goto(`${shared.pathname}${shared.search}`);
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    t.ok(await eventually(async () => (await rows.count()) === 2), 'the filters of a shared address apply');
    await page.getByRole('searchbox', { name: 'Request ID' }).fill(id.split('.')[1] as string);
    await page.waitForURL(/request_id=req_/);
    await page.getByRole('button', { name: 'Clear filters' }).click();
    t.ok(await eventually(async () => (await rows.count()) === 8));
    const file = page.waitForEvent('download');
    await page.getByRole('link', { name: 'CSV' }).click();
    t.equal((await file).suggestedFilename(), 'requests.csv');
    await page.getByRole('button', { name: 'Live' }).click();
    await ask('A: while it is live');
    t.ok(await eventually(async () => (await rows.count()) === 9), 'a new request appears by itself');
    await page.setViewportSize(PHONE);
    const height = await rows.nth(1).evaluate((row) => (row as unknown as { offsetHeight: number }).offsetHeight);
    t.ok(height <= 48, `on a phone, a request is one line (${height} pixels)`);
    await page.setViewportSize(WIDE);
    await noneWrong(t, window, 'request log filters');
  });

  await t.test(
    'prompts and responses are stored if the organization enables it, and only its admins can read them',
    async (t) => {
      await go(page, 'Settings');
      await page.getByRole('button', { name: 'Store prompts and responses' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Store them' }).click();
      await page.getByText('Prompts and responses are stored. Admins can read them.').waitFor();
      await checkLook(page, 'settings-request-log', { few: true });
      await ask('H: how much in all?');
      await page.waitForTimeout(500);
      await go(page, 'Requests');
      t.ok(await eventually(async () => (await rows.count()) === 10), 'the newest request is listed');
      await rows.nth(1).getByRole('link').click();
      const said = page.getByRole('dialog').getByRole('region', { name: 'Prompt and response' });
      await said.getByText('H: how much in all?').waitFor();
      await said.getByText('Forty-two!').waitFor();
      await checkLook(page, 'request-text', { fullPage: false, few: true });
      await page.keyboard.press('Escape');
      await go(page, 'All requests');
      await rows.nth(1).getByRole('link').click();
      await page.getByRole('dialog').getByRole('region', { name: 'Parameters' }).waitFor();
      t.equal(await page.getByText('Forty-two!').count(), 0, 'operators cannot see the response');
      await page.keyboard.press('Escape');
      await page.getByLabel('Organization', { exact: true }).selectOption(organization.id);
      await rows.nth(1).getByRole('link').waitFor();
      await checkLook(page, 'operator-requests', { few: true });
      await noneWrong(t, window, 'operator requests');
    },
  );

  await t.test('a request that was compared with an earlier one shows the first difference', async (t) => {
    const respond = (input: string, more: object = {}): Promise<{ id: string }> =>
      openai.responses.create({ model: 'tycho-1.0', input, reasoning: { effort: 'none' }, ...more });
    const { id } = await respond('A: one apple, please');
    await respond('A: one orange, please', { prompt_cache_options: { comparison_response_id: id } });
    await page.waitForTimeout(500);
    await go(page, 'Requests');
    await page.getByRole('button', { name: 'Refresh' }).click();
    await rows.nth(1).getByRole('link').click();
    const cache = page.getByRole('dialog').getByRole('region', { name: 'Prompt cache' });
    await cache.getByText('An earlier message differs.').waitFor();
    await cache.getByText('apple, please').waitFor();
    await cache.getByText('orange, please').waitFor();
    await checkLook(page, 'request-difference', { fullPage: false, few: true });
    await page.keyboard.press('Escape');
    await noneWrong(t, window, 'request comparison');
  });

  await t.test('the usage page shows costs and can be limited to a range of days and a model', async (t) => {
    await page.goto('/dashboard/operator/usage');
    await page.getByText('No prices are set').waitFor();
    await page.getByRole('button', { name: 'Set prices' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Currency').fill('EUR');
    const model = dialog.getByRole('group', { name: 'tycho-1.0' });
    await model.getByLabel('Input', { exact: true }).fill('x');
    await model.getByText('Input must be a number, 0 or more.').waitFor();
    await model.getByLabel('Input', { exact: true }).fill('150');
    await model.getByLabel('Output').fill('600');
    await checkLook(page, 'prices-dialog', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Save prices' }).click();
    await page.getByRole('table', { name: 'Prices' }).getByText('€600.00').waitFor();
    await checkLook(page, 'operator-usage', { few: true });
    await noneWrong(t, window, 'total usage');
    await go(page, 'Usage');
    await page.locator('.stat', { hasText: 'Cost' }).getByText('€').waitFor();
    await page.locator('.stat', { hasText: 'First token' }).waitFor();
    await checkLook(page, 'usage-cost');
    t.same(await tabThrough(page), [], 'Tab reaches every control of the usage page');
    await page.getByRole('button', { name: 'Set a budget' }).click();
    await page.getByRole('dialog').getByLabel('Amount in EUR').fill('0.1');
    await page.getByRole('dialog').getByLabel('Webhook').fill('http://127.0.0.1:9/hook');
    await page.getByRole('dialog').getByRole('button', { name: 'Save budget' }).click();
    await page.getByRole('dialog').getByText('must be a public internet address').waitFor();
    await page.getByRole('dialog').getByLabel('Webhook').fill('https://hooks.invalid/budget');
    await page.getByRole('dialog').getByRole('button', { name: 'Save budget' }).click();
    await page.getByRole('meter', { name: 'Budget' }).waitFor();
    await page.getByText('The budget does not block requests').waitFor();
    await page.getByRole('button', { name: 'Change' }).click();
    t.match(await page.getByRole('dialog').locator('.secret code').innerText(), /^[0-9a-f]{64}$/);
    await checkLook(page, 'budget-dialog', { fullPage: false, few: true });
    await page.getByRole('dialog').getByLabel('When it is spent').selectOption('Refuse requests');
    await page.getByRole('dialog').getByRole('button', { name: 'Save budget' }).click();
    await page.getByText('When the budget is spent, requests are refused').waitFor();
    await page.getByRole('button', { name: 'Add a budget' }).click();
    const part = page.getByRole('dialog');
    const choice = part.getByLabel('Member or key');
    await choice.selectOption({ index: 1 });
    await part.getByLabel('Amount per month in EUR').fill('0.01');
    await checkLook(page, 'part-budget-dialog', { fullPage: false, few: true });
    await part.getByRole('button', { name: 'Save budget' }).click();
    await page.getByRole('table', { name: 'Budgets of members and keys' }).getByText('of €0.01').waitFor();
    await page.reload();
    // The server detects within seconds that the budget is spent.
    await page.waitForTimeout(2_500);
    await page.reload();
    await page
      .getByRole('alert')
      .getByText(/^(All|Your) requests are refused/)
      .waitFor();
    await checkLook(page, 'usage-budget', { few: true });
    await noneWrong(t, window, 'spent budgets');
    await page.getByRole('button', { name: 'Change', exact: true }).click();
    await page.getByRole('dialog').getByLabel('When it is spent').selectOption('Notify only');
    await page.getByRole('dialog').getByRole('button', { name: 'Save budget' }).click();
    await page.getByText('The budget does not block requests').waitFor();
    await page.getByRole('button', { name: /^Change the budget of/ }).click();
    await part.getByLabel('Amount per month in EUR').fill('');
    await part.getByRole('button', { name: 'Save budget' }).click();
    await page.getByRole('table', { name: 'Budgets of members and keys' }).waitFor({ state: 'detached' });
    await page.getByLabel('Measure').selectOption('cost');
    await page.getByRole('radio', { name: 'Custom' }).check();
    await page.getByLabel('Last day').fill('2020-01-31');
    await page.getByText('Must not be after the last day').waitFor();
    await page.getByLabel('First day').fill('2020-01-01');
    await page.getByText('No usage in this range').waitFor();
    await page.getByRole('radio', { name: '24 h' }).check();
    await page.locator('.stat', { hasText: 'Requests' }).waitFor();
    await page.getByLabel('Model', { exact: true }).selectOption('clarke-1.0');
    await page.getByText('No usage in this range').waitFor();
    await noneWrong(t, window, 'usage');
  });

  await t.test(
    'the live page shows past ranges, zooms by dragging, and shows load by sender and changes',
    async (t) => {
      await owner.patch('/operator/tunables/tycho-1.0', { max_sequences: 3 });
      const busy = setInterval(() => {
        void ask('A: one');
        void ask('H: how much?');
      }, 400);
      t.teardown(() => clearInterval(busy));
      await page.goto('/dashboard/operator/live');
      await page.locator('.badge', { hasText: /^Live$/ }).waitFor();
      t.match(
        await page.locator('.tile', { hasText: 'Preemptions' }).locator('dd').innerText(),
        /^0/,
        'a counter that is still zero has a tile too, so that no tile moves when it counts',
      );
      await page
        .locator('.chart-key', { has: page.locator('.chart-limit') })
        .first()
        .waitFor();
      await page.waitForTimeout(12_000); // an aggregated sample is written every ten seconds
      await page.getByRole('region', { name: 'Changes' }).getByText('engine.tunables_changed').waitFor();
      await checkLook(page, 'live-now');
      await page.getByRole('radio', { name: '1 h', exact: true }).check();
      const chart = page.locator('.live-chart', { hasText: 'Tokens per second' });
      await page.getByRole('figure', { name: /^Tokens per second, last hour/ }).waitFor();
      await page.getByRole('figure', { name: /^Tokens by organization, last hour/ }).waitFor();
      await checkLook(page, 'live-hour');
      await page.getByLabel('Organization', { exact: true }).selectOption(organization.id);
      await page
        .getByRole('region', { name: 'Load by sender' })
        .locator('.chart-key')
        .getByText('production')
        .waitFor();
      const box = (await chart.locator('canvas').boundingBox())!;
      await page.mouse.move(box.x + box.width * 0.6, box.y + 60);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.98, box.y + 60, { steps: 5 });
      await page.mouse.up();
      await page.getByRole('button', { name: 'Reset zoom' }).click();
      await page.getByRole('figure', { name: /^Tokens per second, last hour/ }).waitFor();
      await page.setViewportSize(PHONE);
      t.ok(
        await eventually(async () => (await page.locator('.live-chart').count()) === 3),
        'on a phone, one chart of each group is shown',
      );
      await page.getByLabel('Chart of the engine').selectOption('KV pages');
      await page.getByRole('figure', { name: /^KV pages/ }).waitFor();
      await noneWrong(t, window, 'live');
      await page.setViewportSize(WIDE);
    },
  );
});
