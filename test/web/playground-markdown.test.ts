// Tests Markdown in playground responses, in a real browser against an upstream whose text the test controls: Markdown
// must be rendered while it streams, and hostile text must have no effect.

import { test } from 'tap';
import { StandInServer } from '../../bench/lib/stand-in-server.js';
import { startMonolith } from '../e2e/monolith.js';
import { noBrowser, openSignedIn, overflow, checkLook } from '../support/browser.js';
import type { Locator } from '../support/browser.js';
import { dashboardClient } from '../support/dashboard-client.js';

const START = `# Report

A **bold** word, *emphasis*, ~~gone~~, \`a < b\` &amp; [a link](https://example.com/a?b=1&amp;c=2).
A second line.

- one
  1. nested
- [x] task

3. three

| name | value |
|------|------:|
| long | 1     |

> quoted

---

\`\`\`js
const open = 1;
`;
const END = `const closed = 2;
\`\`\`

![a picture](https://example.com/p.png)

<script>window.hit = 1</script>

<img src="/x" onerror="window.hit = 1"> and <b onclick="window.hit = 1">inline</b>

[run](javascript:window.hit=1) [data](data:text/html,x) [local](/dashboard)

<a href="javascript:window.hit=1">tag</a>
`;

test('playground Markdown', { skip: noBrowser, timeout: 120_000 }, async (t) => {
  let release = (): void => undefined;
  const texts: string[][] = [];
  const upstream = await StandInServer.start({
    firstMs: 0,
    gapMs: 0,
    instead: async (_, response) => {
      const frame = (fields: object): string => `data: ${JSON.stringify({ id: 'chat', ...fields })}\n\n`;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const [at, content] of (texts.shift() ?? []).entries()) {
        if (at > 0)
          await new Promise<void>((resolve) => {
            release = resolve;
          });
        response.write(
          frame({ object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content }, finish_reason: null }] }),
        );
      }
      response.write(frame({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }));
      response.end(`${frame({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 90 } })}data: [DONE]\n\n`);
      return true;
    },
  });
  t.teardown(() => upstream.close());
  const server = await startMonolith({ args: ['--model', `stand-in=${upstream.url}`] });
  t.teardown(() => server.stop());
  const owner = dashboardClient(server.url);
  await owner.signUp();
  const { page, context, problems } = await openSignedIn(t, server.url, owner.cookie);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto('/dashboard/playground');
  const answer = (): Locator => page.getByRole('article', { name: /^Response of/ }).last();
  const text = (): Locator => answer().locator('.answer-text');
  const say = async (...parts: string[]): Promise<void> => {
    texts.push(parts);
    await page.getByLabel('Message', { exact: true }).fill('Hi');
    await page.getByLabel('Message', { exact: true }).press('Enter');
  };

  await t.test('text becomes elements while it streams', async (t) => {
    await say(START, END);
    await text().locator('pre').waitFor();
    t.equal(await text().locator('pre').innerText(), 'const open = 1;', 'an open fence is a code block');
    t.equal(await text().getByRole('button', { name: 'Copy' }).count(), 0, 'it has no copy button yet');
    await text().evaluate((element: { querySelector(name: string): object }) => {
      Object.assign(element.querySelector('table'), { seenBefore: true });
      Object.assign(element.querySelector('pre'), { seenBefore: true });
    });
    release();
    await answer().getByLabel('Usage').waitFor();
    t.equal(await text().getByRole('heading', { name: 'Report' }).count(), 1);
    for (const [selector, content] of [
      ['strong', 'bold'],
      ['em', 'emphasis'],
      ['del', 'gone'],
      ['p code', 'a < b'],
      ['ul > li > ol > li', 'nested'],
      ['ol[start="3"] > li', 'three'],
      ['td.right', '1'],
      ['blockquote', 'quoted'],
      ['figure figcaption span', 'js'],
    ] as const)
      t.equal(await text().locator(selector).first().innerText(), content, selector);
    t.match(await text().locator('p').first().innerText(), /`?a < b`? & a link\.\nA second line\.$/);
    t.equal(await text().locator('li.task input[type=checkbox]:checked:disabled').count(), 1);
    t.equal(await text().locator('hr').count(), 1);
    t.equal(await text().locator('pre').innerText(), 'const open = 1;\nconst closed = 2;');
    t.same(
      await text().evaluate((element: { querySelector(name: string): object }) =>
        ['table', 'pre'].map((name) => (element.querySelector(name) as { seenBefore?: boolean }).seenBefore),
      ),
      [true, true],
      'finished and growing blocks keep their elements',
    );
    await checkLook(page, 'playground-markdown', { fullPage: false });
    t.equal(await overflow(page), 0);
  });

  await t.test('HTML is text, images are links, and other addresses are not links', async (t) => {
    t.equal(await text().locator('script, img, b, iframe, [onerror], [onclick]').count(), 0);
    for (const source of [
      '<script>window.hit = 1</script>',
      '<img src="/x" onerror="window.hit = 1">',
      '[run](javascript:window.hit=1) [data](data:text/html,x) [local](/dashboard)',
      '<a href="javascript:window.hit=1">tag</a>',
    ])
      t.match(await text().innerText(), source);
    t.same(
      await text()
        .locator('a')
        .evaluateAll((links: { href: string; rel: string; target: string }[]) =>
          links.map(({ href, rel, target }) => [href, rel, target]),
        ),
      ['https://example.com/a?b=1&c=2', 'https://example.com/p.png'].map((href) => [
        href,
        'noopener noreferrer nofollow',
        '_blank',
      ]),
    );
    t.equal(await text().locator('a').last().innerText(), 'Image: a picture');
    t.equal(await page.evaluate('window.hit'), undefined, 'no script ran');
  });

  await t.test('the raw text can be shown, and is copied', async (t) => {
    await answer().getByRole('button', { name: 'Show raw text' }).click();
    t.equal(await answer().getByRole('region', { name: 'Raw text' }).textContent(), START + END);
    await answer().getByRole('button', { name: 'Copy response' }).click();
    await answer().getByText('Copied').first().waitFor({ state: 'attached' });
    t.equal(await page.evaluate('navigator.clipboard.readText()'), START + END);
    await answer().getByRole('button', { name: 'Show formatted text' }).click();
    t.equal(await text().getByRole('heading', { name: 'Report' }).count(), 1);
  });

  await t.test('deep nesting and long runs of markers are shown as text', async (t) => {
    const quotes = `${'> '.repeat(10_000)}deep`;
    const markers = '*a_'.repeat(5_000);
    await say(`${quotes}\n\n${markers}\n\n**after**`);
    await text().locator('strong', { hasText: 'after' }).waitFor();
    await answer().getByLabel('Usage').waitFor();
    t.equal(await text().locator('blockquote').count(), 16);
    t.match(await text().innerText(), /> > > deep/);
    t.match(await text().innerText(), markers.slice(0, 300));
    t.equal(await overflow(page), 0);
  });

  t.same(problems, [], 'no script error, no policy violation and no request to another host');
});
