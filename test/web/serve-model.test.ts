// Tests serving a model from a hub on the operator page, in a real browser: the model is downloaded, immediately served
// under a name, used, and removed.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'tap';
import { noBrowser, noneWrong, openSignedIn, checkLook } from '../support/browser.js';
import { startHub } from '../support/hub-server.js';
import { openOwned } from '../support/owned-server.js';
import { writeScriptModel } from '../support/script-model.js';

test('a downloaded model can be served and removed on the operator page', {
  skip: noBrowser,
  timeout: 120_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'monolith-serve-page-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  writeScriptModel(join(folder, 'script.gguf'));
  const hub = await startHub({
    'acme/Tiny-GGUF': { files: { 'tiny-F16.gguf': readFileSync(join(folder, 'script.gguf')) } },
  });
  t.teardown(() => hub.close());
  const owned = await openOwned({ env: { HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: join(folder, 'hub') } });
  t.teardown(() => owned.close());
  const opened = await openSignedIn(t, owned.server.url, owned.owner.cookie);
  const { page } = opened;

  await page.goto('/dashboard/operator/models');
  await page.getByLabel('Search the hub, or enter OWNER/REPO').fill('acme/Tiny-GGUF');
  await page.getByRole('button', { name: 'Download', exact: true }).click();
  await page.getByRole('button', { name: 'Serve acme/Tiny-GGUF:F16' }).click();
  const dialog = page.getByRole('dialog');
  t.equal(await dialog.getByLabel('Name').inputValue(), 'tiny');
  await dialog.getByLabel('Name').fill('hal-1.0');
  await dialog.getByRole('button', { name: 'Serve' }).click();
  await dialog.getByText(/The name "hal-1.0" is already taken/).waitFor();
  await dialog.getByLabel('Name').fill('tiny');
  await checkLook(page, 'serve-model-dialog', { fullPage: false, few: true });
  await dialog.getByRole('button', { name: 'Serve' }).click();
  await page.getByText('Loading tiny').waitFor();
  const row = page.getByRole('row').filter({ has: page.getByRole('button', { name: 'Stop serving tiny' }) });
  await row.getByText('Ready').waitFor();
  await page.getByText('served as tiny').waitFor();
  await checkLook(page, 'serve-model', { few: true });
  await noneWrong(t, opened, 'models');

  await page.goto('/dashboard/playground');
  await page.getByLabel('Settings', { exact: true }).getByLabel('Model', { exact: true }).selectOption('tiny');
  await page.getByLabel('Message', { exact: true }).fill('E: greet');
  await page.getByLabel('Message', { exact: true }).press('Enter');
  await page.getByRole('article', { name: 'Response of tiny' }).getByText('世界').waitFor();

  await page.goto('/dashboard/operator/models');
  await page.getByRole('button', { name: 'Stop serving tiny' }).click();
  await dialog.getByRole('button', { name: 'Stop serving' }).click();
  await page.getByText('tiny is no longer served').waitFor();
  await page.getByRole('button', { name: 'Stop serving tiny' }).waitFor({ state: 'detached' });
  t.same(
    (await owned.owner.get<{ data: { id: string }[] }>('/operator/models')).data.map(({ id }) => id),
    ['hal-1.0', 'clarke-1.0', 'tycho-1.0'],
  );
});
