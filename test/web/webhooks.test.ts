// Tests the Webhooks page in a real browser against a real server: adding an endpoint, its deliveries, an endpoint that
// the server disables, changing, enabling and deleting it.
import OpenAI from 'openai';
import { test } from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import { eventually } from '../e2e/monolith.js';
import { webhookReceiver } from '../support/alert-receivers.js';
import { checkLook, go, noBrowser, noneWrong, openSignedIn, PHONE, WIDE } from '../support/browser.js';
import { openOwned } from '../support/owned-server.js';

test('the webhooks page works', { skip: noBrowser, timeout: 180_000 }, async (t) => {
  const receiver = await webhookReceiver(t);
  const { server, owner, organization, close } = await openOwned({
    args: ['--no-webhooks-public-only'],
    env: { MONOLITH_WEBHOOKS_RETRY_S: '0' },
  });
  t.teardown(close);
  const { secret: key } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, { name: 'a' });
  const client = new OpenAI({ apiKey: key, baseURL: `${server.url}/v1`, maxRetries: 0 });
  const respond = (): Promise<{ id: string }> =>
    client.responses.create({ model: 'tycho-1.0', input: 'Hello', background: true });
  const window = await openSignedIn(t, server.url, owner.cookie);
  const { page } = window;
  const dialog = page.getByRole('dialog');
  const row = page.getByRole('table', { name: 'Webhook endpoints' }).getByRole('row').nth(1);
  await page.goto('/dashboard');
  await go(page, 'Webhooks');
  await page.getByText('No endpoints yet').waitFor();
  await checkLook(page, 'webhooks-empty', { few: true });

  await t.test('an endpoint is added, and its secret is shown once', async (t) => {
    await page.getByRole('button', { name: 'Add endpoint' }).first().click();
    await dialog.getByLabel('URL').fill('ftp://example.com');
    await dialog.getByRole('button', { name: 'Add endpoint' }).click();
    await dialog.getByText('URL must be an http:// or https:// address without a password').waitFor();
    await dialog.getByLabel('URL').fill(receiver.url);
    for (const name of ['batch.completed', 'batch.failed', 'batch.expired', 'batch.cancelled'])
      await dialog.getByLabel(name).uncheck();
    await checkLook(page, 'webhook', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Add endpoint' }).click();
    const secret = await dialog.locator('.secret code').innerText();
    t.match(secret, /^whsec_/);
    await checkLook(page, 'webhook-secret', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'I have saved it' }).click();
    await row.getByText('response.incomplete').waitFor();
    t.notOk((await row.innerText()).includes('batch.'));
    await row.getByText('Enabled').waitFor();
    t.notMatch(await page.content(), /whsec_/);

    const { id } = await respond();
    t.ok(await eventually(() => receiver.taken.length === 1));
    const [{ body, headers }] = receiver.taken as [(typeof receiver.taken)[0]];
    const event = await client.webhooks.unwrap(body, headers as Record<string, string>, secret);
    t.match(event, { type: 'response.completed', data: { id } }, 'the shown secret verifies the events');
    await row.getByRole('button', { name: `Deliveries to ${receiver.url}` }).click();
    await dialog.getByRole('row', { name: /response\.completed.*Delivered 1/s }).waitFor();
    await checkLook(page, 'webhook-deliveries', { fullPage: false });
    await noneWrong(t, window, 'deliveries');
  });

  await t.test('the secret is replaced, and the old one stays valid for a while', async (t) => {
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await row.getByRole('button', { name: /^Rotate the secret/ }).click();
    await checkLook(page, 'webhook-rotate', { fullPage: false, few: true });
    await dialog.getByLabel('Old secret stays valid for').selectOption('7 days');
    await dialog.getByRole('button', { name: 'Create new secret' }).click();
    await dialog.getByText('New signing secret').waitFor();
    const secret = await dialog.locator('.secret code').innerText();
    await dialog.getByRole('button', { name: 'I have saved it' }).click();
    await row.getByText('The old secret is valid until').waitFor();
    await respond();
    t.ok(await eventually(() => receiver.taken.length === 2));
    const { body, headers } = receiver.taken[1]!;
    t.match(await client.webhooks.unwrap(body, headers as Record<string, string>, secret), { object: 'event' });
    await noneWrong(t, window, 'webhooks after a rotation');
    await row.getByRole('button', { name: `Deliveries to ${receiver.url}` }).click();
  });

  await t.test('a failed delivery and the reason why an endpoint is disabled are shown', async (t) => {
    receiver.status = 500;
    await respond();
    await dialog.getByRole('row', { name: /Failed the receiver responded with status 500 1/s }).waitFor();
    await dialog.getByRole('button', { name: 'Close' }).last().click();
    await page.reload();
    await row.getByText('Disabled').waitFor();
    await row.getByText('The last error: the receiver responded with status 500').waitFor();
    await checkLook(page, 'webhooks');
    await noneWrong(t, window, 'webhooks');
    await page.setViewportSize(PHONE);
    await noneWrong(t, window, 'webhooks on a phone');
    await page.setViewportSize(WIDE);
    await row.getByRole('button', { name: /^Enable/ }).click();
    await page.getByText('Endpoint enabled').waitFor();
    await row.getByText('Enabled', { exact: true }).waitFor();
  });

  await t.test('an endpoint is changed, disabled and deleted', async (t) => {
    const url = `${receiver.url}/changed`;
    await row.getByRole('button', { name: /^Edit/ }).click();
    for (const box of await dialog
      .getByRole('checkbox', { checked: true })
      .all()
      .then((all) => all.toReversed()))
      await box.uncheck();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('Select at least one event.').waitFor();
    await dialog.getByLabel('response.failed').check();
    await dialog.getByLabel('URL').fill(url);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Endpoint saved').waitFor();
    await row.getByText(url).waitFor();
    await row.getByText('response.failed').waitFor();
    t.notOk((await row.innerText()).includes('response.completed'));

    await row.getByRole('button', { name: /^Disable/ }).click();
    await dialog.getByRole('button', { name: 'Disable endpoint' }).click();
    await row.getByText('disabled by an admin').waitFor();
    await row.getByRole('button', { name: /^Delete/ }).click();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await row.waitFor();
    await row.getByRole('button', { name: /^Delete/ }).click();
    await checkLook(page, 'webhook-delete', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Delete endpoint' }).click();
    await page.getByText('No endpoints yet').waitFor();
    await noneWrong(t, window, 'webhooks at the end');

    await go(page, 'Audit log');
    await page.getByLabel('Subject').selectOption('webhook');
    for (const action of ['created', 'changed', 'secret_rotated', 'deleted'])
      await page
        .getByRole('rowheader', { name: `webhook.${action}` })
        .first()
        .waitFor();
  });
});
