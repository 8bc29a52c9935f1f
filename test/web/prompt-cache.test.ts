// Tests the prompt cache on the Live page in a real browser with a real server: counts per model and organization,
// unpinning a pinned prompt, and emptying the cache, including with the keyboard.

import t, { test } from 'tap';
import type { PinnedPrompt, PromptCacheState } from '../../src/shared/wire/prompt-cache.js';
import { eventually } from '../e2e/monolith.js';
import { checkLook, noBrowser, noneWrong, openSignedIn } from '../support/browser.js';
import { tabThrough } from '../support/keyboard.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000); // the machine may be busy

const PROMPT = Array.from({ length: 30 }, (_, i) => `Rule ${i}: after ${i} comes ${i + 1}.`).join(' ');

test('the Live page shows and empties the prompt cache', { skip: noBrowser }, async (t) => {
  const owned = await openOwned({ args: ['--kv-disk', 'stored', '--kv-min-tokens', '64'] });
  t.teardown(() => owned.close());
  const { owner, server } = owned;
  t.ok(await eventually(() => server.log().includes('KV pages on disk are available')));
  const respond = async (): Promise<void> => {
    const { status } = await fetch(`${server.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'hal-1.0', input: PROMPT, reasoning: { effort: 'none' } }),
    });
    t.equal(status, 200);
  };
  await respond();
  await respond();
  const pin = await owner.post<PinnedPrompt>('/operator/prompt-cache/pinned', { model: 'hal-1.0', prompt: PROMPT });
  t.equal(pin.state, 'pinned');
  const state = (): Promise<PromptCacheState> => owner.get('/operator/prompt-cache');
  const opened = await openSignedIn(t, server.url, owner.cookie);
  const { page } = opened;
  await page.goto('/dashboard/operator/live');
  const table = page.getByRole('table', { name: 'Prompt cache by model and organization' });
  await table.waitFor();
  const rows = await table.getByRole('row').allInnerTexts();
  t.match(rows[1], /hal-1\.0/);
  t.match(rows[1], /[1-9]\d?\s?%/, 'the share of tokens from memory');
  t.equal(rows.length, 3, 'one model with one organization');
  const pins = page.getByRole('table', { name: 'Pinned prompts' });
  t.match(await pins.innerText(), /Rule 0: after 0 comes 1.*pinned/s);
  await checkLook(page, 'operator-live-prompt-cache');
  t.same(await tabThrough(page), []);

  await page.getByRole('button', { name: /^Unpin/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Unpin' }).click();
  await page.getByText('Prompt unpinned').waitFor();
  await pins.waitFor({ state: 'detached' });
  t.same((await state()).pinned, []);

  t.ok((await state()).models.some(({ disk }) => disk.bytes > 0));
  const empty = page.getByRole('button', { name: 'Empty the prompt cache', exact: true });
  await empty.focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Empty the prompt cache?' });
  await dialog.waitFor();
  await dialog.getByRole('button', { name: 'Empty', exact: true }).press('Enter');
  await page.getByText('Prompt cache emptied').waitFor();
  t.ok(await eventually(async () => (await state()).models.every(({ disk }) => disk.bytes === 0)));
  await noneWrong(t, opened, 'the Live page');
});
