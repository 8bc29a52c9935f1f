// Tests the account pages in a real browser, in the order in which a new user visits them: from the first sign-up and a
// working API key to usage, limits, and signing out and in again. Screenshots of each page are stored in
// build/screenshots.
import OpenAI from 'openai';
import { test } from 'tap';
import { eventually } from '../e2e/monolith.js';
import { go, hasFocus, noBrowser, noneWrong, openBrowser, openWindow, checkLook } from '../support/browser.js';
import type { Page } from '../support/browser.js';
import { startScripted } from '../support/script-model.js';

const EMAIL = 'ada@example.com';
const PASSWORD = 'correct horse battery';

/** Reads the secret shown in the dialog and closes the dialog. */
async function takeSecret(page: Page): Promise<string> {
  const secret = await page.locator('[data-secret]').innerText();
  await page.getByRole('button', { name: 'I have saved it' }).click();
  return secret;
}

test('a new user can complete every task on the account pages', { skip: noBrowser, timeout: 110_000 }, async (t) => {
  const server = await startScripted({ env: { MONOLITH_LIMITS_RPM: '30' } });
  const browser = await openBrowser();
  t.teardown(async () => {
    await browser.close();
    await server.stop();
  });
  const window = await openWindow(browser, server.url);
  const { page } = window;
  const ask = async (apiKey: string, model = 'tycho-1.0'): Promise<string | null> => {
    const client = new OpenAI({ apiKey, baseURL: `${server.url}/v1`, maxRetries: 0 });
    return (
      (await client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hello' }] })).choices[0]
        ?.message.content ?? null
    );
  };
  let secret = '';

  await t.test('the first visitor signs up, and invalid fields are marked and focused', async (t) => {
    await page.goto('/');
    await page.getByRole('heading', { name: 'Set up Monolith' }).waitFor();
    t.equal(new URL(page.url()).pathname, '/dashboard/signup', 'the first visitor is redirected to the sign-up page');
    await checkLook(page, 'sign-up');
    await page.getByLabel('Name', { exact: true }).fill('Ada');
    await page.getByLabel('Email').fill('ana@');
    await page.getByLabel('Password').fill('short');
    await page.getByRole('button', { name: 'Create account' }).click();
    await page.getByText('Email must be a valid email address.').waitFor();
    await page.getByText('Password must be at least 10 characters long.').waitFor();
    t.equal(await page.getByLabel('Password').getAttribute('aria-invalid'), 'true', 'each invalid field is marked');
    t.ok(await eventually(() => hasFocus(page.getByLabel('Email'))), 'the first invalid field has the focus');
    await checkLook(page, 'sign-up-error', { few: true });
    await page.getByLabel('Email').fill(EMAIL);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByLabel('Organization').fill('Analytical Engines');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.getByText('Ready').first().waitFor();
    await checkLook(page, 'overview-new', { few: true });
    await noneWrong(t, window, 'overview');
  });

  await t.test('a created key works and its secret is shown once', async (t) => {
    await go(page, 'API keys');
    await page.getByRole('button', { name: 'Create key' }).first().click();
    const dialog = page.getByRole('dialog');
    t.ok(await hasFocus(dialog.getByLabel('Name')), 'the first field has the focus');
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await dialog.getByText('Name is required.').waitFor();
    await dialog.locator('[aria-invalid=true]').waitFor();
    await dialog.getByLabel('Name').fill('production');
    await dialog.getByLabel('Only these').check();
    await dialog.getByLabel('tycho-1.0').check();
    await dialog.getByLabel('Expires').selectOption('90');
    await dialog.getByText('Limits of this key').click();
    await dialog.getByRole('group', { name: 'All models' }).getByLabel('Requests per minute').fill('100');
    await checkLook(page, 'key-create', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Create key' }).click();
    await page.getByText('will not be shown again', { exact: false }).waitFor();
    await checkLook(page, 'key-secret', { fullPage: false, few: true });
    for (let i = 0; i < 3; i++) await page.keyboard.press('Escape');
    // Escape does not lose the secret: if the browser closes the dialog anyway, the page opens it again.
    await page.locator('[data-secret]').waitFor();
    await page.getByRole('tab', { name: 'Python' }).click();
    t.match(await page.getByRole('tabpanel').innerText(), /client = OpenAI\(base_url="http.*\/v1", api_key="sk-/);
    secret = await takeSecret(page);
    t.match(secret, /^sk-\w{48}$/);
    t.notMatch(await page.content(), secret, 'the secret is no longer on the page');
    t.ok(await ask(secret), 'the key works');
    await t.rejects(ask(secret, 'hal-1.0'), /403/, 'the key works only for its models');
    await page.reload();
    await page.getByRole('rowheader', { name: 'production' }).waitFor();
    t.match(
      await page.getByRole('row', { name: /production/ }).innerText(),
      /Active[\s\S]*tycho-1\.0[\s\S]*in 3 months/,
    );
    await checkLook(page, 'keys');
    await noneWrong(t, window, 'keys');
  });

  await t.test('the usage page shows the requests of the key', async (t) => {
    for (let i = 0; i < 4; i++) await ask(secret);
    await go(page, 'Usage');
    const requests = (): Promise<string> => page.locator('.stat', { hasText: 'Requests' }).locator('dd').innerText();
    t.ok(
      await eventually(async () => {
        await page.reload();
        await page.getByRole('heading', { name: /^(Over time|No usage in this range)$/ }).waitFor();
        return (await page.locator('.stat').count()) > 0 && (await requests()) === '5\n5 with output';
      }, 20_000),
      'the page shows five requests',
    );
    t.match(
      await page
        .getByRole('row', { name: /tycho-1\.0/ })
        .first()
        .innerText(),
      /tycho-1\.0\s+5\s/,
    );
    await page.getByRole('radio', { name: 'By key' }).check();
    await page
      .getByRole('rowheader', { name: /production \(sk-/ })
      .first()
      .waitFor();
    const latency = page.getByRole('table', { name: 'Latency' });
    await latency.getByRole('rowheader', { name: /production \(sk-/ }).waitFor();
    t.match(
      await latency.innerText(),
      /p99[\s\S]*production \(sk-.*\s5\s/,
      'the latency table shows percentiles of the five requests',
    );
    await page.getByRole('radio', { name: 'Hours' }).check();
    await page.getByLabel('Measure').selectOption('requests');
    await page.locator('canvas').waitFor();
    const asTable = page.getByText('Show as table');
    await asTable.focus();
    await page.keyboard.press('Enter');
    t.match(
      await page.getByRole('region', { name: 'Requests over time, as table' }).innerText(),
      /5/,
      'the chart is also available as a table',
    );
    await page.getByText('Show as table').click();
    await checkLook(page, 'usage');
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'CSV' }).click(),
    ]);
    t.equal(download.suggestedFilename(), 'usage.csv');
    await noneWrong(t, window, 'usage');
    await go(page, 'Overview');
    await page.getByText('Last 24 hours').waitFor();
    await page.locator('.stat').first().waitFor();
    await checkLook(page, 'overview');
  });

  await t.test('the limits page shows the current usage', async (t) => {
    await go(page, 'Limits');
    const meter = page.getByRole('meter', { name: 'Requests per minute, tycho-1.0' });
    await meter.waitFor();
    t.equal(await meter.getAttribute('aria-valuemax'), '30');
    await Promise.all([ask(secret), ask(secret), ask(secret)]); // the bucket refills over six seconds
    t.ok(
      await eventually(async () => Number(await meter.getAttribute('aria-valuenow')) >= 1),
      'the meter shows the requests of the last minute',
    );
    await page.getByText('tokens, no cap').waitFor();
    await checkLook(page, 'limits');
    await noneWrong(t, window, 'limits');
  });

  await t.test('a key can be changed, rotated and revoked', async (t) => {
    await go(page, 'API keys');
    await page.getByRole('button', { name: 'Edit production' }).click();
    const dialog = page.getByRole('dialog');
    t.equal(
      await dialog.getByRole('group', { name: 'All models' }).getByLabel('Requests per minute').inputValue(),
      '100',
      'the dialog shows the current limit',
    );
    await dialog.getByLabel('hal-1.0').check();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Key saved').waitFor();
    t.ok(
      await eventually(() =>
        ask(secret, 'hal-1.0').then(
          () => true,
          () => false,
        ),
      ),
      'the added model is usable within seconds',
    );

    await page.getByRole('button', { name: 'Rotate production' }).click();
    await page.getByLabel('Old key stays valid for').selectOption('0');
    await checkLook(page, 'key-rotate', { fullPage: false, few: true });
    await page.getByRole('button', { name: 'Create new secret' }).click();
    await page.locator('[data-secret]').waitFor();
    const next = await takeSecret(page);
    t.ok(await ask(next), 'the new secret works');
    t.ok(
      await eventually(() =>
        ask(secret).then(
          () => false,
          (error: { status?: number }) => error.status === 401,
        ),
      ),
      'the old secret is refused',
    );

    const revoke = page.getByRole('button', { name: 'Revoke production' });
    await revoke.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Revoke production?' }).waitFor();
    await checkLook(page, 'key-revoke', { fullPage: false, few: true });
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    t.ok(await hasFocus(revoke), 'the focus returns when the dialog closes');
    await revoke.click();
    await page.getByRole('button', { name: 'Revoke key' }).click();
    await page.getByRole('rowheader', { name: 'production' }).waitFor({ state: 'detached' });
    t.ok(
      await eventually(() =>
        ask(next).then(
          () => false,
          (error: { status?: number }) => error.status === 401,
        ),
      ),
      'a revoked key is refused',
    );
    await page.getByRole('radio', { name: 'All (3)' }).check();
    t.ok(await eventually(async () => (await page.getByText('Revoked', { exact: true }).count()) === 2));
    await checkLook(page, 'keys-revoked', { few: true });
    await noneWrong(t, window, 'keys');
  });

  await t.test(
    'the profile page changes the name and password, and a password change ends other sessions',
    async (t) => {
      const elsewhere = await openWindow(browser, server.url);
      await elsewhere.page.goto('/dashboard/usage');
      await elsewhere.page.getByRole('heading', { name: 'Sign in' }).waitFor();
      await checkLook(elsewhere.page, 'sign-in');
      await elsewhere.page.getByLabel('Email').fill(EMAIL);
      await elsewhere.page.getByLabel('Password').fill('wrong password');
      await elsewhere.page.getByRole('button', { name: 'Sign in' }).click();
      await elsewhere.page.getByRole('alert').waitFor();
      await checkLook(elsewhere.page, 'sign-in-error', { few: true });
      await elsewhere.page.getByLabel('Password').fill(PASSWORD);
      await elsewhere.page.getByRole('button', { name: 'Sign in' }).click();
      await elsewhere.page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();

      await page.locator('.sidebar').getByRole('link', { name: /Ada/ }).click();
      await page.getByRole('heading', { level: 1, name: 'Profile' }).waitFor();
      await page.getByText('This device').waitFor();
      await checkLook(page, 'profile');
      await page.getByLabel('Name', { exact: true }).fill('Ada L.');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByText('Name saved').waitFor();
      await page.getByLabel('Current password').fill(PASSWORD);
      await page.getByLabel('New password').fill('another long password');
      await page.getByRole('button', { name: 'Change password' }).click();
      await page.getByText('Password changed').waitFor();
      await elsewhere.page.reload();
      await elsewhere.page.getByRole('heading', { name: 'Sign in' }).waitFor();
      t.pass('other sessions have ended');
      await noneWrong(t, elsewhere, 'signing in again');
      await elsewhere.context.close();

      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
      await page.goBack();
      await page.getByRole('heading', { name: 'Sign in' }).waitFor();
      await page.getByRole('link', { name: 'Forgot your password?' }).click();
      await page.getByText('cannot send email').waitFor();
      await checkLook(page, 'forgot-password', { few: true });
      await page.goto('/dashboard/reset?token=nothing');
      await page.getByLabel('New password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Set password' }).click();
      await page.getByRole('alert').waitFor();
      await checkLook(page, 'reset-password-error', { few: true });
      await page.goto('/dashboard/verify?token=nothing');
      await page.getByRole('alert').waitFor();
      await checkLook(page, 'verify-email', { few: true });
      await page.goto('/dashboard/signin');
      await page.getByLabel('Email').fill(EMAIL);
      await page.getByLabel('Password').fill('another long password');
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
      await noneWrong(t, window, 'sign-in');
    },
  );
});
