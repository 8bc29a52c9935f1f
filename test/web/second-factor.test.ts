// Tests two-factor authentication in a real browser: setup with a QR code, the code at sign-in, an operator page that
// requires it, an address change, and deletion of the account.
import { test } from 'tap';
import { hasFocus, noBrowser, noneWrong, openBrowser, openWindow, checkLook } from '../support/browser.js';
import { PASSWORD } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';
import { codeOf } from '../support/one-time-codes.js';

test('a user can set up and use two-factor authentication', { skip: noBrowser, timeout: 300_000 }, async (t) => {
  const dashboard = await startDashboard({ accounts: { operator_second_factor: 'required' } });
  const browser = await openBrowser();
  t.teardown(async () => {
    await browser.close();
    await dashboard.close();
  });
  const operator = dashboard.client();
  await operator.signUp({ email: 'ada@example.com', name: 'Ada' });
  const window = await openWindow(browser, dashboard.url);
  const { page } = window;
  const password = async (): Promise<void> => {
    await page.getByLabel('Email').fill('ada@example.com');
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in' }).click();
  };

  await page.goto('/dashboard/operator/users');
  await password();
  await page.getByRole('heading', { level: 1, name: 'Two-factor authentication required' }).waitFor();
  await page.getByRole('link', { name: 'Open your profile' }).click();
  await page.getByText('Operators of this server must use two-factor authentication').waitFor();
  await checkLook(page, 'profile-second-factor', { few: true });

  await page.getByRole('button', { name: 'Turn on' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Password').fill('wrong');
  await dialog.getByRole('button', { name: 'Continue' }).click();
  await dialog.getByText('Password is wrong').waitFor();
  await dialog.getByLabel('Password').fill(PASSWORD);
  await dialog.getByRole('button', { name: 'Continue' }).click();
  await dialog.getByRole('img', { name: 'QR code of the secret' }).waitFor();
  const secret = await dialog.locator('[data-totp-secret]').innerText();
  await checkLook(page, 'second-factor-code', { fullPage: false, few: true });
  await dialog.getByLabel('Code', { exact: true }).fill('000000');
  await dialog.getByRole('button', { name: 'Turn on' }).click();
  await dialog.getByText("Check that the device's clock").waitFor();
  t.ok(await hasFocus(dialog.getByLabel('Code', { exact: true })));
  await dialog.getByLabel('Code', { exact: true }).fill(codeOf(secret));
  await page.keyboard.press('Enter');
  await page.getByText('not be shown again').waitFor();
  const recovery = await page.locator('.recovery-codes code').allInnerTexts();
  t.equal(recovery.length, 10);
  await checkLook(page, 'recovery-codes', { fullPage: false, few: true });
  await page.getByRole('button', { name: 'I have saved them' }).click();
  await page.getByText('10 left').waitFor();
  t.equal(
    await page.getByRole('button', { name: 'Turn off' }).count(),
    0,
    'operators cannot turn two-factor authentication off',
  );
  await noneWrong(t, window, 'profile');

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await password();
  await page.getByRole('heading', { name: 'Enter the code' }).waitFor();
  await checkLook(page, 'sign-in-code', { few: true });
  await page.getByLabel('Code').fill('123');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('The code is wrong').waitFor();
  await page.getByRole('button', { name: 'Back to the password' }).click();
  await password();
  await page.getByLabel('Code').fill(recovery[0] ?? '');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.locator('.sidebar').getByRole('link', { name: /Ada/ }).click();
  await page.getByText('9 left').waitFor();

  await page.getByRole('button', { name: 'Change…' }).click();
  await dialog.getByLabel('New email').fill('ada@example.org');
  await dialog.getByLabel('Password').fill(PASSWORD);
  await dialog.getByRole('button', { name: 'Change' }).click();
  await page.getByText('Email address changed').waitFor();
  await page.locator('.fact-list').getByText('ada@example.org').waitFor();

  await page.getByRole('button', { name: 'Delete account…' }).click();
  await dialog.getByLabel('Password').fill(PASSWORD);
  await dialog.getByLabel('Code', { exact: true }).fill(recovery[1] ?? '');
  await dialog.getByRole('button', { name: 'Delete permanently' }).click();
  await dialog.getByText('You are the last owner of').waitFor();
  await checkLook(page, 'delete-account-refused', { fullPage: false, few: true });
  await page.keyboard.press('Escape');
  await noneWrong(t, window, 'profile');

  const user = await openWindow(browser, dashboard.url);
  await dashboard
    .client()
    .signUp({ email: 'bob@example.com', name: 'Bob' })
    .then(async ({ organization }) => {
      const bob = dashboard.client();
      await bob.login('bob@example.com');
      await bob.delete(`/organizations/${organization.id}`);
    });
  await user.page.goto('/dashboard/profile');
  await user.page.getByLabel('Email').fill('bob@example.com');
  await user.page.getByLabel('Password').fill(PASSWORD);
  await user.page.getByRole('button', { name: 'Sign in' }).click();
  await user.page.getByRole('button', { name: 'Delete account…' }).click();
  await user.page.getByRole('dialog').getByLabel('Password').fill(PASSWORD);
  await user.page.getByRole('dialog').getByRole('button', { name: 'Delete permanently' }).click();
  await user.page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await noneWrong(t, user, 'sign-in');
});
