// Tests OpenID Connect sign-in in a real browser: the button, the redirects, and the message after a failure.
import { test } from 'tap';
import { noBrowser, noneWrong, openBrowser, openWindow, checkLook } from '../support/browser.js';
import { startDashboard } from '../support/dashboard-server.js';
import { startOidcProvider } from '../support/oidc-provider.js';

test('a user can sign in with an OpenID Connect provider', { skip: noBrowser, timeout: 300_000 }, async (t) => {
  const provider = await startOidcProvider();
  const dashboard = await startDashboard({
    oidc: {
      issuer: provider.issuer,
      client_id: provider.clientId,
      client_secret: provider.clientSecret,
      name: 'Example ID',
      signup: 'open',
    },
  });
  provider.register(`${dashboard.url}/dashboard/api/oidc/callback`);
  const browser = await openBrowser();
  t.teardown(async () => {
    await browser.close();
    await dashboard.close();
    await provider.close();
  });
  await dashboard.client().signUp({ email: 'operator@example.com' });
  const window = await openWindow(browser, dashboard.url);
  const { page } = window;

  await page.goto('/dashboard/profile');
  await page.getByRole('link', { name: 'Sign in with Example ID' }).waitFor();
  await checkLook(page, 'sign-in-provider', { few: true });
  await page.getByRole('link', { name: 'Sign in with Example ID' }).click();
  await page.getByText('Sign-in was cancelled at').waitFor();
  await checkLook(page, 'sign-in-provider-denied', { few: true });

  await page.goto('/dashboard/signin?oidc=no_role');
  await page.getByText('Your account at Example ID has no role on this server.').waitFor();

  provider.person = { sub: 'ada', email: 'ada@example.com', email_verified: true, name: 'Ada' };
  await page.getByRole('link', { name: 'Sign in with Example ID' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.locator('.sidebar').getByRole('link', { name: /Ada/ }).click();
  await page.getByRole('heading', { name: 'Sign-in with Example ID' }).waitFor();
  t.equal(await page.getByLabel('Current password').count(), 0, 'an account without a password has no password form');
  await page.getByText('Linked', { exact: true }).waitFor();
  t.same(
    window.problems.splice(0).filter((problem) => !problem.startsWith(`request to ${provider.issuer}/`)),
    [],
    'the page sent no request to any other host',
  );
  await noneWrong(t, window, 'profile');
});
