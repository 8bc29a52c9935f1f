// Tests an organization's pages in a real browser: models, stored responses, members and invitations, settings and
// audit log. Also covers keyboard use, narrow screens and an unreachable server.
import OpenAI from 'openai';
import { test } from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import { eventually } from '../e2e/monolith.js';
import {
  go,
  hasFocus,
  noBrowser,
  noneWrong,
  openSignedIn,
  openWindow,
  overflow,
  PHONE,
  checkLook,
  WIDE,
} from '../support/browser.js';
import { PASSWORD } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';

test('the pages of an organization work', { skip: noBrowser, timeout: 110_000 }, async (t) => {
  const {
    server: { url },
    owner,
    organization,
    close,
  } = await openOwned();
  t.teardown(close);
  const window = await openSignedIn(t, url, owner.cookie);
  const { browser, page } = window;
  await page.goto('/dashboard');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();

  await t.test('the pages for models, stored responses and the audit log show their content', async (t) => {
    await go(page, 'Models');
    await page.getByRole('heading', { name: /tycho/i }).waitFor();
    await checkLook(page, 'models');
    await noneWrong(t, window, 'models');

    const { secret } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, {
      name: 'production',
    });
    const client = new OpenAI({ apiKey: secret, baseURL: `${url}/v1`, maxRetries: 0 });
    const response = await client.responses.create({ model: 'tycho-1.0', input: 'Hello' });
    await go(page, 'Stored responses');
    await page.getByText('stores each response by default').waitFor();
    await page.getByRole('rowheader', { name: 'Hello', exact: true }).waitFor();
    await checkLook(page, 'responses');
    await client.responses.create({
      model: 'tycho-1.0',
      input: 'Hello again',
      previous_response_id: response.id,
    });
    await page.reload();
    await page.getByRole('button', { name: 'Hello again', exact: true }).click();
    await page.getByRole('dialog').getByText('Hello again').waitFor();
    t.same(
      await page
        .getByRole('dialog')
        .getByRole('heading', { level: 3 })
        .allInnerTexts()
        .then((heads) => heads.filter((head) => head === 'User').length),
      2,
      'a chain of responses is shown as one conversation',
    );
    await checkLook(page, 'response', { fullPage: false, few: true });
    await noneWrong(t, window, 'a stored response');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('button', { name: 'Delete response' }).click();
    await page.getByRole('rowheader', { name: 'Hello again' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: `Delete ${response.id}` }).click();
    await page.getByRole('button', { name: 'Delete response' }).click();
    await page.getByText('No stored responses').waitFor();
    await t.rejects(client.responses.retrieve(response.id), /404/, 'the deleted response is gone');
    await checkLook(page, 'responses-empty', { few: true });

    const conversation = await client.conversations.create({
      metadata: { topic: 'a trip' },
      items: [{ type: 'message', role: 'user', content: 'Hello' }],
    });
    await page.reload();
    const conversations = page.getByRole('table', { name: 'Conversations' });
    await conversations.getByRole('row', { name: /topic a trip 1 / }).waitFor();
    await checkLook(page, 'conversations');
    await noneWrong(t, window, 'conversations');
    await page.getByRole('button', { name: `Delete ${conversation.id}` }).click();
    await page.getByRole('dialog').getByText('its 1 item will be erased', { exact: false }).waitFor();
    await page.getByRole('button', { name: 'Delete conversation' }).click();
    await page.getByText('No conversations.').waitFor();
    await t.rejects(client.conversations.retrieve(conversation.id), /404/, 'the deleted conversation is gone');

    await go(page, 'Audit log');
    await page.getByRole('rowheader', { name: 'api_key.created' }).first().waitFor();
    await page.getByRole('rowheader', { name: 'conversation.deleted' }).waitFor();
    await checkLook(page, 'audit-log');
    await page.getByLabel('Subject').selectOption('member');
    await page.getByRole('rowheader', { name: 'api_key.created' }).waitFor({ state: 'detached' });
    await page.waitForURL(/action=member/);
    await page.getByRole('searchbox', { name: 'By' }).fill('nobody@example.com');
    await page.keyboard.press('Enter');
    await page.getByText('No matching changes').waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).first().click();
    await page.getByRole('rowheader', { name: 'api_key.created' }).first().waitFor();
    await page.goto('/dashboard/operator/audit-log');
    await page.getByRole('rowheader', { name: 'operator.first_user' }).waitFor();
    await checkLook(page, 'operator-audit-log', { few: true });
    await noneWrong(t, window, 'audit log');
  });

  await t.test('the sidebar fits the window, and the command palette opens everything by keyboard', async (t) => {
    await page.setViewportSize({ width: 1440, height: 900 });
    for (const [path, most] of [
      ['/dashboard', 13],
      ['/dashboard/operator/live', 10],
    ] as const) {
      await page.goto(path);
      const links = page.locator('.sidebar .pages a');
      await links.first().waitFor();
      t.ok((await links.count()) <= most, `${path} has at most ${most} entries`);
      t.equal(
        await page
          .locator('.sidebar .pages')
          .evaluate((list: { scrollHeight: number; clientHeight: number }) => list.scrollHeight - list.clientHeight),
        0,
        `no entry of ${path} is out of sight`,
      );
    }
    await page.setViewportSize(WIDE);
    await page.goto('/dashboard/usage');
    await page.getByRole('heading', { level: 1, name: 'Usage' }).waitFor();
    const palette = page.getByRole('dialog', { name: 'Command palette' });
    const field = palette.getByRole('combobox');
    const selected = (): Promise<string> => palette.getByRole('option', { selected: true }).innerText();
    const find = async (text: string, shortcut = 'Control+k'): Promise<void> => {
      await page.keyboard.press(shortcut);
      await field.waitFor();
      await page.keyboard.type(text);
    };

    await find('');
    t.ok(await hasFocus(field), 'the field has the focus');
    t.match(await selected(), /Overview/);
    await page.keyboard.press('ArrowDown');
    t.match(await selected(), /Playground/);
    t.equal(
      await field.getAttribute('aria-activedescendant'),
      await palette.getByRole('option', { selected: true }).getAttribute('id'),
      'screen readers are told which option is active',
    );
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    t.match(await selected(), /Create API key/, 'the list wraps around');
    await checkLook(page, 'palette', { fullPage: false });
    await page.keyboard.press('Escape');
    await palette.waitFor({ state: 'detached' });

    await find('stored');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Stored responses' }).waitFor();
    await find('clarke', 'Meta+k');
    t.match(await selected(), /clarke-1\.0/);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/dashboard/models?model=clarke-1.0');
    await find('production');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Edit production' }).waitFor();
    await page.keyboard.press('Escape');
    await find(organization.name);
    await palette.getByRole('option', { name: organization.id }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: organization.name }).waitFor();
    await find('req_0123456789abcdef');
    t.equal(await palette.getByRole('option', { name: /^Open request req_0123456789abcdef/ }).count(), 2);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/dashboard/requests?request_id=req_0123456789abcdef');
    await find('nothing of this name');
    await palette.getByText('Nothing matches.').waitFor();
    await page.keyboard.press('Escape');
    await noneWrong(t, window, 'palette');
  });

  await t.test('a user can be invited, join, get another role and be removed', async (t) => {
    await go(page, 'Members');
    await page.getByRole('button', { name: 'Invite' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Email').fill('grace@example.com');
    await checkLook(page, 'invite', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Invite' }).click();
    const link = await dialog.locator('.secret code').innerText();
    t.match(link, /\/dashboard\/accept-invite\?token=/);
    await dialog.getByRole('button', { name: 'Done' }).click();

    const other = await openWindow(browser, url, { viewport: PHONE, colorScheme: 'dark' });
    await other.page.goto(link);
    await other.page.getByText('as developer').waitFor();
    t.equal(await other.page.getByLabel('Email').inputValue(), 'grace@example.com');
    await checkLook(other.page, 'join', { few: true });
    await other.page.getByLabel('Name', { exact: true }).fill('Grace');
    await other.page.getByLabel('Password').fill(PASSWORD);
    await other.page.getByRole('button', { name: 'Join' }).click();
    await other.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await other.page.getByRole('button', { name: 'Menu' }).click();
    const menu = other.page.getByRole('dialog', { name: 'Menu' });
    t.notOk(await menu.getByText('Audit log').isVisible(), 'pages that the role does not allow are not in the menu');
    t.equal(await menu.getByRole('navigation', { name: 'Area' }).count(), 0, 'operator pages are not in the menu');
    await other.page.setViewportSize(PHONE);
    await checkLook(other.page, 'menu', { fullPage: false });
    await menu.getByRole('link', { name: 'Members' }).click();
    await other.page.getByRole('heading', { level: 1, name: 'Members' }).waitFor();
    await menu.waitFor({ state: 'hidden' });
    await noneWrong(t, other, 'members on a phone');
    await other.page.goto('/dashboard/audit-log');
    await other.page.getByText('Not available for your role').waitFor();

    await page.reload();
    await page.getByLabel('Role of grace@example.com').selectOption('viewer');
    await page.getByText('is now viewer').waitFor();
    await checkLook(page, 'members');
    await page.getByRole('button', { name: 'Remove grace@example.com' }).click();
    await page.getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByText('grace@example.com removed').waitFor();
    await other.page.goto('/dashboard/keys');
    await other.page.getByRole('heading', { name: 'Sign in' }).waitFor();
    await other.context.close();
    await noneWrong(t, window, 'members');
  });

  await t.test('an organization can be created, renamed and deleted', async (t) => {
    await page.getByRole('combobox', { name: 'Organization' }).selectOption('new');
    await page.getByRole('dialog').getByLabel('Name').fill('Second');
    await page.getByRole('button', { name: 'Create organization' }).click();
    await page.getByText('Second created').waitFor();
    await go(page, 'API keys');
    await page.getByText('No API keys yet').waitFor();
    await checkLook(page, 'keys-empty', { few: true });
    await go(page, 'Usage');
    await page.getByText('No usage in this range').waitFor();
    await checkLook(page, 'usage-empty', { few: true });
    await go(page, 'Settings');
    await page.getByLabel('Name', { exact: true }).fill('Renamed');
    await page.getByRole('button', { name: 'Rename' }).click();
    await page.getByText('Organization renamed').waitFor();
    await checkLook(page, 'settings');
    await page.getByRole('button', { name: 'Delete organization …' }).click();
    const confirm = page.getByRole('button', { name: 'Delete organization', exact: true });
    t.ok(await confirm.isDisabled(), 'the button is disabled until the name is typed');
    await checkLook(page, 'organization-delete', { fullPage: false, few: true });
    await page.getByLabel('to confirm').fill('Renamed');
    await confirm.click();
    await page.getByText('Renamed deleted').waitFor();
    t.ok(
      await eventually(
        async () => !/Renamed/.test(await page.getByRole('combobox', { name: 'Organization' }).innerText()),
      ),
      'the deleted organization is no longer in the selector',
    );
    await noneWrong(t, window, 'settings');
  });

  await t.test('the pages work by keyboard, on a small phone and without a reachable server', async (t) => {
    await page.goto('/dashboard/keys');
    await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
    await page.keyboard.press('Tab');
    t.equal(
      await page.evaluate('document.activeElement.textContent'),
      'Skip to content',
      'the first focusable element is the link that skips the navigation',
    );
    await page.keyboard.press('Enter');
    t.ok(await eventually(async () => (await page.evaluate('document.activeElement.id')) === 'main'));
    await go(page, 'Limits');
    t.ok(
      await eventually(async () => (await page.evaluate('document.activeElement.tagName')) === 'H1'),
      'the focus moves to the heading of the new page',
    );
    t.ok(await eventually(async () => (await page.title()) === 'Limits · Monolith'));

    await page.setViewportSize({ width: 360, height: 700 });
    for (const path of [
      '',
      '/keys',
      '/usage',
      '/limits',
      '/models',
      '/members',
      '/settings',
      '/profile',
      '/audit-log',
      '/responses',
      '/webhooks',
      '/files',
    ]) {
      await page.goto(`/dashboard${path}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.locator('[aria-busy=true], .skeleton').first().waitFor({ state: 'detached' });
      t.equal(await overflow(page), 0, `${path || '/'} fits 360 pixels`);
    }
    await page.setViewportSize(WIDE);
    await page.goto('/dashboard/nothing');
    await page.getByText('There is no page at this address').waitFor();
    await checkLook(page, 'not-found', { few: true });

    await page.goto('/dashboard/keys');
    await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
    await page.route('**/audit-log*', (route) => route.abort());
    await go(page, 'Audit log');
    await page.getByText('Cannot reach the server').first().waitFor();
    await checkLook(page, 'error', { few: true });
    await page.unroute('**/audit-log*');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('rowheader', { name: 'api_key.created' }).first().waitFor();
    await noneWrong(t, window, 'the end');
  });
});
