// Tests the playground with several models side by side, and saving: a link shared with members, and presets that
// restore their settings.

import { test } from 'tap';
import type { InviteObject } from '../../src/shared/wire/organizations.js';
import { contentOf, settingsOf, turnsOf } from '../../src/dashboard/web/src/playground/saved.js';
import { NO_SETTINGS } from '../../src/dashboard/web/src/playground/settings.js';
import type { Turn } from '../../src/dashboard/web/src/playground/conversation.js';
import {
  hasFocus,
  noBrowser,
  noneWrong,
  openSignedIn,
  openWindow,
  overflow,
  checkLook,
  signIn,
} from '../support/browser.js';
import { openOwned } from '../support/owned-server.js';

test('a saved conversation is restored as it was', (t) => {
  const turns: Turn[] = [
    { kind: 'user', id: 4, text: 'What is this?', pictures: [{ name: 'dot.png', dataUrl: 'data:,' }] },
    {
      kind: 'answer',
      id: 5,
      results: { call_1: '14 C' },
      answer: {
        state: 'done',
        model: 'hal-1.0',
        text: 'A dot',
        reasoning: 'hm',
        calls: [{ id: 'call_1', name: 'look', arguments: '{}' }],
        tokens: [],
        finishReason: 'stop',
        usage: { prompt: 9, cached: 1, completion: 2, reasoning: 1 },
        problem: null,
        sentAt: 100,
        firstAt: 150,
        answeredAt: 160,
        endedAt: 300,
      },
    },
  ];
  const kept = contentOf({ ...NO_SETTINGS, system: 'Be brief', model: 'hal-1.0' }, [{ model: 'hal-1.0', turns }]);
  t.match(settingsOf({ ...kept, settings: { ...kept.settings, unheard: 'of' } }), {
    system: 'Be brief',
    model: 'hal-1.0',
  });
  t.notOk('unheard' in settingsOf({ ...kept, settings: { unheard: 'of' } }));
  const [user, answer] = turnsOf(kept.columns[0]!.turns);
  t.match(user, { kind: 'user', id: 1, text: 'What is this?\n[1 image not saved]', pictures: [] });
  t.match(answer, {
    kind: 'answer',
    id: 2,
    results: { call_1: '14 C' },
    answer: {
      state: 'done',
      text: 'A dot',
      reasoning: 'hm',
      calls: [{ name: 'look' }],
      sentAt: 0,
      firstAt: 50,
      endedAt: 200,
    },
  });
  t.end();
});

test('models can be compared side by side', { skip: noBrowser, timeout: 120_000 }, async (t) => {
  const owned = await openOwned();
  t.teardown(() => owned.close());
  const { owner, organization, server } = owned;
  const opened = await openSignedIn(t, server.url, owner.cookie);
  const { browser, page } = opened;
  const column = (name: string) => page.getByRole('region', { name: `Column for ${name}` });
  const composer = page.getByLabel('Message', { exact: true });

  await page.goto('/dashboard/playground');
  await page.getByRole('button', { name: 'Compare' }).click();
  await column('clarke-1.0').waitFor();
  await page.getByLabel('System prompt').fill('Be brief.');
  await composer.fill('E: greet');
  await composer.press('Enter');
  for (const name of ['hal-1.0', 'clarke-1.0']) {
    await column(name).getByText('世界').waitFor();
    t.match(
      await column(name).getByLabel('Usage').innerText(),
      /Completion\s*[1-9][\s\S]*TTFT[\s\S]*Total/,
      `${name} shows its usage and timings`,
    );
  }
  await page.getByRole('button', { name: 'Add a model to compare' }).click();
  await column('tycho-1.0').waitFor();
  await composer.fill('L: a story');
  await composer.press('Enter');
  for (const name of ['hal-1.0', 'clarke-1.0', 'tycho-1.0']) await column(name).getByText('Once upon a time').waitFor();
  await page.keyboard.press('Escape');
  for (const name of ['hal-1.0', 'clarke-1.0', 'tycho-1.0']) await column(name).getByText('Stopped by you').waitFor();
  t.equal(
    await column('tycho-1.0').getByRole('article', { name: 'You' }).count(),
    1,
    'a column added later gets only the last message',
  );
  await checkLook(page, 'playground-compare', { fullPage: false });
  await page.getByRole('button', { name: 'Remove clarke-1.0' }).click();
  await column('clarke-1.0').waitFor({ state: 'detached' });
  t.equal(
    await column('tycho-1.0').getByRole('article', { name: 'You' }).count(),
    1,
    'each column keeps its own conversation',
  );
  await noneWrong(t, opened, 'side by side');

  await t.test('a shared conversation opens for members and for nobody else', async (t) => {
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    t.equal(await dialog.getByLabel('Name', { exact: true }).inputValue(), 'E: greet', 'the title is proposed');
    t.ok(await hasFocus(dialog.getByLabel('Name', { exact: true })), 'the first field has the focus');
    await dialog.getByLabel('Name', { exact: true }).fill('Two of them');
    await dialog.getByLabel(/^Share it with/).check();
    await checkLook(page, 'playground-save', { fullPage: false, few: true });
    await dialog.getByRole('button', { name: 'Save and share' }).click();
    t.match(await dialog.locator('.secret code').innerText(), new RegExp(`/dashboard/shared/${organization.id}/`));
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await dialog.getByLabel('What to save', { exact: true }).selectOption('preset');
    await dialog.getByLabel('Name', { exact: true }).fill('Brief');
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Brief saved').waitFor();
    await page.getByRole('button', { name: 'History' }).click();
    await dialog.getByRole('tab', { name: 'Saved and shared' }).click();
    await dialog.getByRole('button', { name: 'Rename Brief' }).click();
    await dialog.getByLabel('New name for Brief').fill('Short');
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await dialog.getByRole('button', { name: 'Share Short' }).waitFor();
    await checkLook(page, 'playground-presets', { fullPage: false, few: true });
    await page.keyboard.press('Escape');

    const {
      data: [talk],
    } = await owner.get<{ data: { id: string; name: string }[] }>(`/organizations/${organization.id}/playground/saved`);
    const { url } = await owner.post<InviteObject>(`/organizations/${organization.id}/invites`, {
      email: 'grace@example.com',
      role: 'developer',
    });
    const grace = owned.client();
    await grace.signUp({
      email: 'grace@example.com',
      name: 'Grace',
      invite: new URL(url as string).searchParams.get('token') as string,
    });
    const member = await openWindow(browser, server.url);
    await signIn(member, server.url, grace.cookie);
    const link = `/dashboard/shared/${organization.id}/${talk!.id}`;
    await member.page.goto(link);
    await member.page.getByRole('heading', { name: 'Two of them' }).waitFor();
    await member.page.getByText('世界').waitFor();
    await checkLook(member.page, 'playground-shared', { few: true });
    await noneWrong(t, member, 'the link');
    await member.page.getByRole('button', { name: 'Continue in the playground' }).click();
    await member.page.getByRole('region', { name: 'Column for tycho-1.0' }).getByText('Once upon a time').waitFor();
    t.equal(await member.page.getByLabel('System prompt').inputValue(), 'Be brief.', 'the settings are restored too');

    const eve = owned.client();
    await eve.signUp({ email: 'eve@example.com' });
    const stranger = await openWindow(browser, server.url);
    await signIn(stranger, server.url, eve.cookie);
    await stranger.page.goto(link);
    await stranger.page.getByText('This link is not available').waitFor();
    t.equal(await stranger.page.getByText('世界').count(), 0);

    const openSaved = async (): Promise<void> => {
      await page.getByRole('button', { name: 'History' }).click();
      await dialog.getByRole('tab', { name: 'Saved and shared' }).click();
    };
    await page.getByLabel('System prompt').fill('');
    await openSaved();
    await dialog.getByRole('button', { name: 'Use Short' }).click();
    await dialog.waitFor({ state: 'detached' });
    t.equal(await page.getByLabel('System prompt').inputValue(), 'Be brief.', 'a preset restores its settings');
    await openSaved();
    await dialog.getByRole('button', { name: 'Delete Short' }).click();
    await dialog.getByRole('button', { name: 'Delete permanently' }).click();
    await dialog.getByRole('button', { name: 'Delete Short' }).waitFor({ state: 'detached' });
    await dialog.getByRole('button', { name: 'Stop sharing Two of them' }).click();
    await dialog.getByRole('button', { name: 'Share Two of them' }).waitFor();
    await member.page.goto(link);
    await member.page.getByText('This link is not available').waitFor();
    await page.keyboard.press('Escape');

    // The conversation is in this browser's history, even after a reload, until the user signs out.
    await page.getByRole('button', { name: 'New chat' }).click();
    await page.reload();
    await page.getByRole('button', { name: 'History' }).click();
    await dialog.getByRole('button', { name: 'Open E: greet' }).click();
    await column('tycho-1.0').getByText('Once upon a time').waitFor();
    t.equal(await page.locator('.conversation-title').innerText(), 'E: greet');
    t.equal(
      await page.getByLabel('Settings', { exact: true }).getByLabel('Model', { exact: true }).count(),
      0,
      'compared models are chosen only above their columns',
    );
    await page.setViewportSize({ width: 360, height: 740 });
    t.equal(await overflow(page), 0, 'on a phone only the columns scroll sideways, not the page');
  });
});
