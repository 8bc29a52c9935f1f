// Tests the operator pages in a real browser against a real server: live values and charts, engine settings,
// organizations, users and models.

import { test } from 'tap';
import type { OperatorOrganization } from '../../src/shared/wire/organizations.js';
import type { EngineTunables } from '../../src/shared/wire/tunables.js';
import type { OperatorUser } from '../../src/shared/wire/users.js';
import { eventually } from '../e2e/monolith.js';
import { noBrowser, noneWrong, openSignedIn, openWindow, overflow, checkLook, signIn } from '../support/browser.js';
import { refusal } from '../support/dashboard-client.js';
import { tabThrough } from '../support/keyboard.js';
import { openOwned } from '../support/owned-server.js';

test('the operator pages work', { skip: noBrowser, timeout: 120_000 }, async (t) => {
  const owned = await openOwned();
  const { owner, server } = owned;
  t.teardown(() => owned.close());
  const guest = owned.client();
  const { organization: other } = await guest.signUp({
    email: 'grace@example.com',
    name: 'Grace',
    organization_name: 'Harbour',
  });
  const { browser, page, problems } = await openSignedIn(t, server.url, owner.cookie, {
    reducedMotion: 'no-preference',
  });

  await t.test('the live page updates its values and charts while requests run', async (t) => {
    await page.goto('/dashboard/operator/live');
    await page.locator('.badge', { hasText: /^Live$/ }).waitFor();
    const tile = (label: string): Promise<string> =>
      page.locator('.tile', { hasText: label }).first().locator('dd').innerText();
    const chart = page.locator('.live-chart', { hasText: 'Tokens per second' });
    await chart.locator('canvas').waitFor();
    const picture = (): Promise<string> =>
      chart.locator('canvas').evaluate((canvas: { toDataURL(): string }) => canvas.toDataURL());
    t.match(await tile('Decode'), /^0/);
    const labels = (): Promise<string[]> => page.locator('.tile dt').allInnerTexts();
    const tops = (): Promise<number[]> =>
      page
        .locator('.tile, .live-chart')
        .evaluateAll((all: { getBoundingClientRect(): { top: number } }[]) =>
          all.map((one) => Math.round(one.getBoundingClientRect().top)),
        );
    const [idleLabels, idleTops] = [await labels(), await tops()];
    const idle = await picture();
    const stop = new AbortController();
    const stories = Array.from({ length: 3 }, () =>
      fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        signal: stop.signal,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
        body: JSON.stringify({
          model: 'hal-1.0',
          stream: true,
          reasoning_effort: 'none',
          messages: [{ role: 'user', content: 'L: on and on' }],
        }),
      })
        .then(async (response) => {
          await response.text();
        })
        .catch(() => undefined),
    );
    t.ok(await eventually(async () => /^3/.test(await tile('Running'))), 'the page shows three running requests');
    t.ok(
      await eventually(async () => Number((await tile('Decode')).replace(/\D.*$/s, '')) > 0),
      'the page shows tokens per second',
    );
    t.ok(
      await eventually(async () => /^[\d.]+ ms/.test(await tile('Time per output token'))),
      'the page shows the time per output token',
    );
    t.ok(await eventually(async () => !/^0%/.test(await tile('KV pages used'))), 'the page shows KV pages in use');
    t.match(
      await chart.locator('.live-now').innerText(),
      /[\d.,]+ prefill, [\d.,]+ decode/,
      'the chart has a text summary',
    );
    t.ok(await eventually(async () => (await picture()) !== idle), 'the chart was redrawn');
    t.same([await labels(), await tops()], [idleLabels, idleTops], 'no tile and no chart has moved under load');
    t.equal(
      await page.getByRole('figure', { name: /^Tokens per second, last 5 minutes\. Now: / }).count(),
      1,
      'the chart has a description for screen readers',
    );
    await checkLook(page, 'operator-live');
    t.same(await tabThrough(page), [], 'Tab reaches every control of the live page');

    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByText(/^Paused at/).waitFor();
    const held = [await tile('Decode'), await picture()];
    await new Promise((done) => setTimeout(done, 1500));
    for (const name of ['1 h', '5 min']) await page.getByRole('radio', { name, exact: true }).click();
    await chart.locator('canvas').waitFor();
    t.same([await tile('Decode'), await picture()], held, 'nothing changes while the page is paused');
    await page.getByRole('button', { name: 'Resume' }).click();
    stop.abort();
    await Promise.all(stories);
    t.ok(await eventually(async () => /^0/.test(await tile('Running'))), 'the running requests drop to zero');
  });

  await t.test('changed engine settings take effect immediately', async (t) => {
    await page.goto('/dashboard/operator/tunables');
    await page.waitForURL('**/dashboard/operator/tuning');
    const form = page.getByRole('form', { name: /^Settings of hal-1\.0/ });
    const field = form.getByLabel('Concurrent sequences', { exact: true });
    const slider = form.getByRole('slider', { name: 'Concurrent sequences, slider' });
    const apply = form.getByRole('button', { name: 'Apply' });
    const before = await owner.get<EngineTunables>('/operator/tunables/hal-1.0');
    const valueOf = (engine: EngineTunables, wanted = 'max_sequences'): number =>
      engine.tunables.find(({ name }) => name === wanted)!.value;
    t.equal(Number(await field.inputValue()), valueOf(before));
    t.equal(await form.getByRole('button', { name: 'Apply' }).count(), 1, 'an engine has one form with one button');
    await field.fill('0');
    await form.getByText(/^Concurrent sequences must be a whole number from 1 to /).waitFor();
    t.equal(await apply.isDisabled(), true);
    t.equal(await slider.inputValue(), '0', 'the slider follows a number below the range to its lower end');
    await field.fill('2');
    await form.getByLabel('Step time target', { exact: true }).fill('100');
    await form.getByText('2 unsaved changes').waitFor();
    await checkLook(page, 'operator-tunables-changed', { few: true });
    await field.press('Enter');
    await page.getByText(/2 settings of hal-1\.0.* changed/).waitFor();
    const changed = await owner.get<EngineTunables>('/operator/tunables/hal-1.0');
    t.same([valueOf(changed), valueOf(changed, 'step_ms')], [2, 100], 'one click applies both');
    await checkLook(page, 'operator-tunables');

    const stop = new AbortController();
    const stories = Array.from({ length: 4 }, () =>
      fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        signal: stop.signal,
        headers: { 'content-type': 'application/json', authorization: `Bearer ${server.key}` },
        body: JSON.stringify({
          model: 'hal-1.0',
          stream: true,
          reasoning_effort: 'none',
          messages: [{ role: 'user', content: 'L: on' }],
        }),
      })
        .then(async (response) => {
          await response.text();
        })
        .catch(() => undefined),
    );
    const running = async (): Promise<number> =>
      Math.max(
        ...[...(await server.metrics())]
          .filter(([name]) => name.startsWith('monolith_sequences_running'))
          .map(([, value]) => value),
      );
    t.ok(await eventually(async () => (await running()) === 2), 'two of four requests run');
    await form.getByRole('button', { name: 'Restore defaults' }).click();
    await form.getByText('2 unsaved changes').waitFor();
    await apply.click();
    await page
      .getByText(/2 settings of hal-1\.0.* changed/)
      .last()
      .waitFor();
    t.ok(await eventually(async () => (await running()) === 4), 'all four requests run with the defaults');
    stop.abort();
    await Promise.all(stories);
    await slider.focus();
    await page.keyboard.press('ArrowLeft');
    t.ok(Number(await field.inputValue()) < valueOf(before), 'the slider can be moved with the keyboard');
    await form.getByRole('button', { name: 'Discard' }).click();
    t.equal(Number(await field.inputValue()), valueOf(before));
  });

  await t.test("an organization's limits, monthly cap and suspension can be changed", async (t) => {
    const of = (): Promise<OperatorOrganization> => owner.get(`/operator/organizations/${other.id}`);
    await page.goto('/dashboard/operator/organizations');
    await page.getByRole('link', { name: 'Harbour' }).waitFor();
    await checkLook(page, 'operator-organizations');
    await page.getByRole('link', { name: 'Harbour' }).click();
    await page.getByRole('heading', { name: 'Harbour' }).waitFor();
    await page.getByText('No usage in this period').waitFor();
    for (const [tab, text] of [
      ['Members', 'grace@example.com'],
      ['API keys', 'No API keys'],
      ['Requests', 'Requests appear here shortly after they end.'],
      ['Budget', 'No prices are set'],
      ['Audit log', 'member.joined'],
    ] as const) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('tabpanel').getByText(text).first().waitFor();
    }
    t.match(page.url(), /tab=audit/, 'the tab is in the address');
    await page.getByRole('tab', { name: 'Limits' }).click();
    const model = page.getByRole('group', { name: 'hal-1.0' });
    await model.getByLabel('Requests per minute', { exact: true }).fill('x');
    await model.getByText('Must be a whole number of at least 1.').waitFor();
    t.equal(await page.getByRole('button', { name: 'Save limits' }).isDisabled(), true);
    await model.getByLabel('Requests per minute', { exact: true }).fill('12');
    await model.getByLabel('No limit: Tokens per minute').check();
    await page.getByLabel('Tokens per calendar month').fill('5,000,000');
    await page.getByRole('button', { name: 'Save limits' }).click();
    await page.getByText('Limits of Harbour saved').waitFor();
    const changed = await of();
    t.match(changed, {
      overrides: { 'hal-1.0': { rpm: 12, tpm: null } },
      monthly_token_cap: 5_000_000,
      limits: { 'hal-1.0': { rpm: 12, tpm: null } },
    });
    await checkLook(page, 'operator-organization');
    t.same(await tabThrough(page), [], 'Tab reaches every control of an organization');
    await page.getByRole('button', { name: 'Suspend' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Suspend' }).click();
    await page.getByText(/^Suspended: every request/).waitFor();
    t.equal((await of()).status, 'suspended');
    const member = await openWindow(browser, server.url);
    await signIn(member, server.url, guest.cookie);
    for (const path of ['/', '/playground', '/keys', '/members', '/settings']) {
      await member.page.goto(`/dashboard${path}`);
      await member.page.getByText('Harbour is suspended.').waitFor();
    }
    await member.page.goto('/dashboard/keys');
    await member.page.getByText('No keys can be created while the organization is suspended.').waitFor();
    await checkLook(member.page, 'keys-suspended', { few: true });
    await member.page.goto('/dashboard/members');
    await member.page.getByText('You are the only owner. To leave, make another member an owner first.').waitFor();
    t.equal(await member.page.getByRole('button', { name: 'Leave' }).count(), 0, 'the only owner cannot leave');
    await noneWrong(t, member, 'a suspended organization');
    await member.context.close();
    t.equal(
      (
        await refusal(
          guest.post(`/organizations/${other.id}/playground`, {
            model: 'hal-1.0',
            messages: [{ role: 'user', content: 'A' }],
          }),
        )
      ).code,
      'organization_suspended',
    );
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
    await page.getByText(/is active again/).waitFor();
    t.equal((await of()).status, 'active');
  });

  await t.test('a user can be locked, made an operator and given a reset link', async (t) => {
    const of = async (): Promise<OperatorUser> =>
      (await owner.get<{ data: OperatorUser[] }>('/operator/users')).data.find(
        ({ email }) => email === 'grace@example.com',
      )!;
    await page.goto('/dashboard/operator/users');
    await page.getByRole('button', { name: 'Lock Grace', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Lock' }).click();
    await page.getByText('Grace is locked').waitFor();
    t.equal((await of()).locked, true);
    await checkLook(page, 'operator-users');
    await page.getByRole('button', { name: 'Unlock Grace' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Unlock' }).click();
    await page.getByText('Grace is unlocked').waitFor();
    await page.getByRole('button', { name: 'Make operator: Grace' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Make operator' }).click();
    await page.getByText('Grace is now an operator').waitFor();
    t.match(await of(), { locked: false, operator: true });
    await page.getByRole('button', { name: 'Reset link for Grace' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Create link' }).click();
    const link = await page.getByRole('dialog').locator('code').innerText();
    await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
    t.match(link, /^http.*token=|^http.*#/, 'the dialog shows the reset link');
  });

  await t.test('a model can be deprecated with a retirement date and a successor', async (t) => {
    await page.goto('/dashboard/operator/models');
    await page.getByRole('button', { name: 'Lifecycle of tycho-1.0' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('radio', { name: 'Deprecated' }).check();
    await dialog.getByLabel('Successor').selectOption('clarke-1.0');
    const date = dialog.getByLabel('Retires on');
    const proposed = await date.inputValue();
    await date.fill(new Date(Date.now() + 10 * 86_400_000).toISOString().slice(0, 10));
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText(/at least 90 days/).waitFor();
    await date.fill(proposed);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('tycho-1.0 is deprecated').waitFor();
    t.match(await owner.get('/operator/models/tycho-1.0'), {
      lifecycle: 'deprecated',
      successor: 'clarke-1.0',
      retires_at: new RegExp(`^${proposed}`),
    });
    await checkLook(page, 'operator-models');
    await page.getByRole('button', { name: 'Lifecycle of tycho-1.0' }).click();
    await dialog.getByRole('radio', { name: 'Active' }).check();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('tycho-1.0 is active').waitFor();
  });

  await t.test('a model can be unloaded and loaded again', async (t) => {
    await page.goto('/dashboard/operator/models');
    await page.getByRole('button', { name: 'Unload clarke-1.0' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Unload' }).click();
    // this button appears once the model is unloaded
    await page.getByRole('button', { name: 'Load clarke-1.0', exact: true }).click();
    // this button appears once the model is ready again
    await page.getByRole('button', { name: 'Unload clarke-1.0' }).waitFor();
    t.match(await owner.get('/operator/models/clarke-1.0'), { state: 'ready' });
  });

  await t.test('operators see the usage of all organizations, and other users have no access', async (t) => {
    t.ok(
      await eventually(async () => {
        await page.goto('/dashboard/operator/usage');
        return await page
          .getByRole('cell', { name: 'hal-1.0' })
          .first()
          .waitFor({ timeout: 1500 })
          .then(
            () => true,
            () => false,
          );
      }),
    );
    await checkLook(page, 'operator-usage');
    await page.setViewportSize({ width: 360, height: 740 });
    for (const path of [
      'live',
      'tuning',
      'organizations',
      `organizations?org=${other.id}`,
      'users',
      'models',
      'usage',
    ]) {
      await page.goto(`/dashboard/operator/${path}`);
      // the live page keeps its stream open, so it never becomes idle
      await page.waitForLoadState('networkidle', { timeout: 700 }).catch(() => undefined);
      t.equal(await overflow(page), 0, `${path} does not scroll sideways at 360 pixels`);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    const visitor = await openWindow(browser, server.url);
    const stranger = owned.client();
    await stranger.signUp({ email: 'eve@example.com' });
    await signIn(visitor, server.url, stranger.cookie);
    await visitor.page.goto('/dashboard/operator/live');
    await visitor.page.getByRole('heading', { name: 'Not available for your role' }).waitFor();
    t.equal(
      await visitor.page.getByRole('navigation', { name: 'Area' }).count(),
      0,
      'there is no way to the other area',
    );
  });

  await t.test('a lost connection is reported and re-established', async (t) => {
    await page.goto('/dashboard/operator/live');
    await page.locator('.badge', { hasText: /^Live$/ }).waitFor();
    await page.route('**/api/operator/live', (route) => route.abort());
    await page.reload();
    await page.getByText(/^Disconnected, retrying in [3-9] seconds/).waitFor();
    await page.unroute('**/api/operator/live');
    await page.getByRole('button', { name: 'Connect now' }).click();
    await page.locator('.badge', { hasText: /^Live$/ }).waitFor();
    t.pass('the page has reconnected');
  });

  t.same(problems, [], 'no script error, no policy violation and no request to another host');
});
