// Tests service accounts and dashboard addresses in a real browser: what an admin does on the Members and Settings
// pages, what a user at another address sees, and how an operator lets the organization be opened again.
import { test } from 'tap';
import { noBrowser, noneWrong, openSignedIn, openWindow, checkLook, signIn } from '../support/browser.js';
import { startDashboard } from '../support/dashboard-server.js';

const HERE = '127.0.0.1';
const ELSEWHERE = '198.51.100.4';

test('service accounts and dashboard addresses', { skip: noBrowser, timeout: 300_000 }, async (t) => {
  const dashboard = await startDashboard({ http: { trust_proxy: true } });
  t.teardown(() => dashboard.close());
  const owner = dashboard.client();
  const { organization } = await owner.signUp({
    email: 'owner@example.com',
    organization_name: 'Harbour',
    code: (await dashboard.server.directory.signUps.firstCode()) ?? '',
  });
  const window = await openSignedIn(t, dashboard.url, owner.cookie);
  const { browser, page } = window;
  const dialog = page.getByRole('dialog');
  const said = async (key: string): Promise<number> =>
    (await fetch(`${dashboard.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status;

  await t.test('an admin creates a service account and a key for it, disables and deletes it', async (t) => {
    await page.goto('/dashboard/members');
    await page.getByRole('button', { name: 'New service account' }).click();
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText('Name is required.').waitFor();
    await dialog.getByLabel('Name').fill('build');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('rowheader', { name: 'build' }).waitFor();
    await checkLook(page, 'service-accounts');
    await noneWrong(t, window, 'members');

    await page.getByRole('link', { name: 'Create key' }).click();
    await dialog.getByLabel('Name', { exact: true }).fill('nightly');
    const owner = dialog.getByLabel('Owner');
    t.equal(await owner.locator('option:checked').innerText(), 'build', 'the link selects the service account');
    await checkLook(page, 'service-account-key', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Create key' }).click();
    const secret = await dialog.locator('.secret code').innerText();
    await dialog.getByRole('button', { name: /saved|Done/ }).click();
    await page.getByRole('rowheader', { name: /nightly.*· build/s }).waitFor();
    t.equal(await said(secret), 200);
    await page.goto('/dashboard/requests');
    await page.getByLabel('API key').selectOption({ label: await keyLabel() });

    await page.goto('/dashboard/members');
    await page.getByRole('button', { name: 'Disable build' }).click();
    await dialog.getByRole('button', { name: 'Disable' }).click();
    await page.getByText('Disabled', { exact: true }).waitFor();
    t.equal(await said(secret), 403);
    await page.getByRole('button', { name: 'Enable build' }).click();
    await page.getByRole('button', { name: 'Disable build' }).waitFor();
    t.equal(await said(secret), 200);
    await page.getByRole('button', { name: 'Edit build' }).click();
    await dialog.getByLabel('Name').fill('pipeline');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('button', { name: 'Delete pipeline' }).click();
    await dialog.getByText('Its 1 valid API key will be revoked').waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    t.equal(await said(secret), 200, 'nothing is deleted without the confirmation');
    await page.getByRole('button', { name: 'Delete pipeline' }).click();
    await dialog.getByRole('button', { name: 'Delete service account' }).click();
    await page.getByText('No service accounts').waitFor();
    t.equal(await said(secret), 401);
    await noneWrong(t, window, 'members at the end');

    /** The key's label in the filter of the request log, which names the service account. */
    async function keyLabel(): Promise<string> {
      const options = page.getByLabel('API key').locator('option');
      await options.filter({ hasText: 'of build' }).waitFor({ state: 'attached' });
      return await options.filter({ hasText: 'of build' }).innerText();
    }
  });

  await t.test('an owner restricts the addresses, and an operator clears the list', async (t) => {
    await page.goto('/dashboard/settings');
    const field = page.getByLabel('Allowed addresses');
    await field.fill('203.0.113.0/24');
    await page.getByText('You are the only owner.').waitFor();
    await page.getByRole('button', { name: 'Save addresses' }).click();
    await page.getByText(`must include ${HERE}`).waitFor();
    await page.getByRole('button', { name: 'Add my address' }).click();
    t.equal(await field.inputValue(), `203.0.113.0/24\n${HERE}`);
    await checkLook(page, 'dashboard-addresses');
    await page.getByRole('button', { name: 'Save addresses' }).click();
    await page.getByText('Addresses saved').waitFor();
    await noneWrong(t, window, 'settings');

    const away = await openWindow(browser, dashboard.url);
    await signIn(away, dashboard.url, owner.cookie);
    await away.context.setExtraHTTPHeaders({ 'x-forwarded-for': ELSEWHERE });
    await away.page.goto('/dashboard/keys');
    await away.page.getByRole('heading', { level: 1, name: 'Not available from your address' }).waitFor();
    await away.page.getByText(ELSEWHERE).waitFor();
    await checkLook(away.page, 'address-not-allowed', { few: true });
    await noneWrong(t, away, 'the page at another address');

    await away.page.goto(`/dashboard/operator/organizations?org=${organization.id}`);
    await away.page.getByText('Its dashboard pages can be opened only from').waitFor();
    await away.page.getByRole('button', { name: 'Allow all addresses' }).click();
    await away.page.getByRole('dialog').getByRole('button', { name: 'Allow all addresses' }).click();
    await away.page.getByText('can be opened from all addresses').first().waitFor();
    await away.page.goto('/dashboard/keys');
    await away.page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
    await noneWrong(t, away, 'the page after clearing');
    await away.context.close();
  });
});
