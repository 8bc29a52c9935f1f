// Tests the page of files and batches in a real browser against a real server: files are downloaded and deleted, and a
// batch is followed and cancelled.
import { readFileSync } from 'node:fs';
import OpenAI, { toFile } from 'openai';
import { test } from 'tap';
import type { CreatedApiKey } from '../../src/shared/wire/api-keys.js';
import { checkLook, go, noBrowser, noneWrong, openSignedIn, PHONE, WIDE } from '../support/browser.js';
import { tabThrough } from '../support/keyboard.js';
import { openOwned } from '../support/owned-server.js';

const model = 'clarke-1.0';

test('the page of files and batches works', { skip: noBrowser, timeout: 300_000 }, async (t) => {
  const { server, owner, organization, close } = await openOwned();
  t.teardown(close);
  const { secret: key } = await owner.post<CreatedApiKey>(`/organizations/${organization.id}/api-keys`, {
    name: 'a',
    scopes: ['inference', 'batches', 'files.read', 'files.write'],
  });
  const client = new OpenAI({ apiKey: key, baseURL: `${server.url}/v1`, maxRetries: 0 });
  const upload = async (text: string, name: string, purpose: 'batch' | 'user_data'): Promise<string> =>
    (await client.files.create({ file: await toFile(Buffer.from(text), name), purpose })).id;
  const lines = (count: number, maxTokens: number): string =>
    Array.from({ length: count }, (_, at) =>
      JSON.stringify({
        custom_id: String(at),
        method: 'POST',
        url: '/v1/chat/completions',
        body: {
          model,
          reasoning_effort: 'none',
          max_completion_tokens: maxTokens,
          messages: [{ role: 'user', content: 'L: x' }],
        },
      }),
    ).join('\n');
  const begin = async (text: string): Promise<string> =>
    (
      await client.batches.create({
        input_file_id: await upload(text, 'in.jsonl', 'batch'),
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      })
    ).id;
  const window = await openSignedIn(t, server.url, owner.cookie);
  const { page } = window;
  const dialog = page.getByRole('dialog');
  const files = page.getByRole('table', { name: 'Files' });
  const batches = page.getByRole('table', { name: 'Batches' });
  await page.goto('/dashboard');
  await go(page, 'Files and batches');
  await page.getByText('No files').waitFor();
  await checkLook(page, 'files-empty', { few: true });

  await t.test('files are listed, downloaded and deleted', async (t) => {
    const id = await upload('the content', 'notes <1>.txt', 'user_data');
    const other = await upload('another', 'other.txt', 'user_data');
    await page.reload();
    const row = files.getByRole('row', { name: /notes <1>\.txt.*user_data.*11 B/s });
    await row.waitFor();
    await checkLook(page, 'files');
    const download = page.waitForEvent('download');
    await row.getByRole('link', { name: 'Download notes <1>.txt' }).click();
    t.equal(readFileSync(await (await download).path(), 'utf8'), 'the content');
    t.same(await tabThrough(page), [], 'Tab reaches every control');
    await row.getByRole('button', { name: 'Delete notes <1>.txt' }).click();
    await checkLook(page, 'file-delete', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Delete file' }).click();
    await row.waitFor({ state: 'detached' });
    await files.getByRole('row', { name: /other\.txt/ }).waitFor();
    await t.rejects(client.files.retrieve(id), /404/);
    t.equal((await client.files.retrieve(other)).id, other);
    await noneWrong(t, window, 'files');
  });

  await t.test('batches show their progress and files, and are cancelled', async (t) => {
    const ended = await begin(lines(2, 5));
    const invalid = await begin('no JSON');
    await page.getByRole('tab', { name: 'Batches' }).click();
    const rowOf = (id: string): ReturnType<typeof batches.getByRole> =>
      batches.getByRole('row', { name: new RegExp(id.slice(-8)) });
    await rowOf(ended).getByText('completed', { exact: true }).waitFor({ timeout: 60_000 });
    await rowOf(ended).getByText('2 of 2').waitFor();
    await rowOf(invalid).getByText('failed', { exact: true }).waitFor();
    await rowOf(invalid)
      .getByText(/^Line 1: /)
      .waitFor();
    const download = page.waitForEvent('download');
    await rowOf(ended)
      .getByRole('link', { name: /^Output of batch/ })
      .click();
    const output = readFileSync(await (await download).path(), 'utf8')
      .trim()
      .split('\n');
    t.match(
      output.map((line) => JSON.parse(line) as object),
      [{ response: { status_code: 200 } }, { response: { status_code: 200 } }],
    );
    const running = await begin(lines(50, 3_000));
    await rowOf(running).getByText('in progress', { exact: true }).waitFor({ timeout: 60_000 });
    await checkLook(page, 'batches');
    t.same(await tabThrough(page), [], 'Tab reaches every control');
    await rowOf(running)
      .getByRole('button', { name: /^Cancel batch/ })
      .click();
    await checkLook(page, 'batch-cancel', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Cancel batch' }).click();
    await rowOf(running).getByText('cancelled', { exact: true }).waitFor({ timeout: 60_000 });
    t.equal((await client.batches.retrieve(running)).status, 'cancelled');
    await noneWrong(t, window, 'batches');
    await page.setViewportSize(PHONE);
    await noneWrong(t, window, 'batches on a phone');
    await page.setViewportSize(WIDE);
    await page.getByRole('radio', { name: '/v1/messages/batches' }).check();
    await page.getByText('No batches').waitFor();

    await go(page, 'Audit log');
    for (const action of ['file.downloaded', 'file.deleted', 'batch.cancelled'])
      await page.getByRole('rowheader', { name: action }).first().waitFor();
  });
});
