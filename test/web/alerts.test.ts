// Tests the operators' page about alerts in a real browser against a real server: an incident with its messages, what
// is measured, test alerts, and the note about processes that are down.
import { test } from 'tap';
import { eventually } from '../e2e/monolith.js';
import { webhookReceiver } from '../support/alert-receivers.js';
import { go, noBrowser, noneWrong, openSignedIn, PHONE, checkLook, WIDE } from '../support/browser.js';
import { openOwned } from '../support/owned-server.js';

test('the alerts page works', { skip: noBrowser, timeout: 120_000 }, async (t) => {
  const fine = await webhookReceiver(t);
  const broken = await webhookReceiver(t, 404);
  const { server, owner, close } = await openOwned({
    args: ['--no-webhooks-public-only'],
    models: ['hal-1.0'],
    env: {
      MONOLITH_ALERTS_WEBHOOKS: fine.url,
      MONOLITH_ALERTS_WEBHOOK_SECRET: 'a secret of sixteen characters or more',
      MONOLITH_ALERTS_SLACK: `${broken.url}5`,
      MONOLITH_ALERTS_WINDOW_S: '10',
      // a different thread from the one that serves the page measures the values
      MONOLITH_HTTP_THREADS: '2',
      // more free space than any disk has
      MONOLITH_ALERTS_DISK_FREE_BYTES: '1024TiB',
    },
  });
  t.teardown(close);
  t.ok(await eventually(() => fine.taken.length === 1 && broken.taken.length > 0));
  const window = await openSignedIn(t, server.url, owner.cookie);
  const { page } = window;
  await page.goto('/dashboard');
  await go(page, 'Alerts');

  const incident = page.getByRole('table', { name: 'Current incidents' }).getByRole('row').nth(1);
  await incident.getByText(/^Little disk space: .* free \(threshold 1,?024 TiB\)$/).waitFor();
  await incident.getByText('Look at: Delete old backups', { exact: false }).waitFor();
  await incident.getByText('Delivered').waitFor();
  await incident.getByText(/^\d+ attempts?: the receiver responded with status 404\. Next attempt: /).waitFor();

  const measured = page.getByRole('table', { name: 'Measured' });
  await measured.getByRole('row', { name: /^Error rate 0% of \d+|^Error rate none/ }).waitFor();
  await measured.getByRole('row', { name: /^Free disk space of .* Alert$/ }).waitFor();
  await page.getByText('Not measured, because of the settings: latency. No budget is spent.').waitFor();
  await page.getByText('A process cannot report its own exit', { exact: false }).waitFor();

  const destinations = page.getByRole('table', { name: 'Destinations' });
  t.notMatch(await page.content(), 'secret-token', 'the tokens in the URLs are not shown');
  await destinations.getByRole('button', { name: /^Send a test alert to .*…1234$/ }).click();
  await destinations.getByText(/^Delivered in \d/).waitFor();
  t.equal(fine.bodies().at(-1)?.['type'], 'alert.test');
  await destinations.getByRole('button', { name: /^Send a test alert to .*…2345$/ }).click();
  await destinations.getByText('Not delivered: the receiver responded with status 404').waitFor();
  await checkLook(page, 'operator-alerts');
  await noneWrong(t, window, 'alerts');
  await page.setViewportSize(PHONE);
  await noneWrong(t, window, 'alerts on a phone');
  await page.setViewportSize(WIDE);
});
