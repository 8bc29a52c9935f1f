// Tests the playground in a real browser against a real server with scripted models: streaming, thinking, tools,
// stopping, images, errors, and generated code that runs.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import type { ApiKeyObject } from '../../src/shared/wire/api-keys.js';
import { eventually, root, startMonolith } from '../e2e/monolith.js';
import { noBrowser, openSignedIn, overflow, checkLook } from '../support/browser.js';
import type { Locator } from '../support/browser.js';
import { dashboardClient } from '../support/dashboard-client.js';
import { openOwned } from '../support/owned-server.js';

test('playground', { skip: noBrowser, timeout: 120_000 }, async (t) => {
  const owned = await openOwned({
    env: { MONOLITH_MODELS: JSON.stringify({ 'clarke-1.0': { image_input: 'note' } }) },
  });
  t.teardown(() => owned.close());
  const { page, problems } = await openSignedIn(t, owned.server.url, owned.owner.cookie);

  const composer = page.getByLabel('Message', { exact: true });
  const answer = (): Locator => page.getByRole('article', { name: /^Response of/ }).last();
  const settings = page.getByLabel('Settings', { exact: true });
  const say = async (text: string): Promise<void> => {
    await composer.fill(text);
    await composer.press('Enter');
  };
  const finished = async (): Promise<void> => {
    await answer().getByLabel('Usage').waitFor();
  };

  await t.test('an empty playground names the model and what it accepts', async (t) => {
    await page.goto('/dashboard/playground');
    await page.getByRole('heading', { name: 'Send a message to hal-1.0' }).waitFor();
    t.same(await settings.getByLabel('Model', { exact: true }).locator('option').allTextContents(), [
      'hal-1.0',
      'clarke-1.0',
      'tycho-1.0',
    ]);
    t.equal(await page.getByRole('button', { name: 'Send' }).isDisabled(), true);
    t.equal(
      await page.getByText(/accepts text only/).count(),
      0,
      'the text-only notice is not shown under every message',
    );
    t.match(
      await page.getByRole('button', { name: /^Add images/ }).getAttribute('title'),
      'hal-1.0 accepts text only',
      'the notice is shown where images are added',
    );
    t.equal(await overflow(page), 0);
    await checkLook(page, 'playground-empty', { fullPage: false });
  });

  await t.test('thinking is collapsed once the response text starts', async (t) => {
    await say('H: six times seven?');
    await finished();
    t.match(await answer().innerText(), /Forty-two!/);
    const thinking = answer().getByRole('button', { name: /^Thought/ });
    t.ok(await eventually(async () => (await thinking.getAttribute('aria-expanded')) === 'false'));
    t.notMatch(await answer().innerText(), /Six times seven/);
    await thinking.focus();
    await page.keyboard.press('Enter');
    await answer().getByText('The user wants a number. Six times seven.').waitFor();
    const facts = await answer().getByLabel('Usage').innerText();
    for (const fact of ['Prompt', 'Cached', 'Completion', 'Reasoning', 'TTFT', 'Total']) t.match(facts, fact);
    await page.getByText('The response is complete.').waitFor({ state: 'attached' }); // announced to screen readers
  });

  await t.test('a conversation has several turns, and model output is never interpreted as HTML', async (t) => {
    await composer.fill('F: an <img src=x onerror=alert(1)>');
    await composer.press('Shift+Enter');
    await composer.pressSequentially('second line');
    await composer.press('Enter');
    await finished();
    t.match(await answer().locator('pre').innerText(), /"name": "Grace"/, 'a fence is shown as a code block');
    t.equal(await page.locator('article.user').last().innerText(), 'F: an <img src=x onerror=alert(1)>\nsecond line');
    t.match(
      await answer().getByLabel('Usage').innerText(),
      /Cached\s*[1-9]/,
      'the first turn is found in the prefix cache',
    );
    await page.getByRole('button', { name: 'Edit this message' }).last().click();
    await page.getByLabel('Edit message').fill('E: greet');
    await page.getByLabel('Edit message').press('Enter');
    await answer().getByText('世界').waitFor();
    await finished();
    t.equal(await page.getByRole('article').count(), 4, 'the edited turn replaced the original');
    await page.getByRole('button', { name: 'Regenerate' }).click();
    await finished();
    t.equal(await page.getByRole('article').count(), 4);
  });

  await t.test('stopping cancels the generation', async (t) => {
    await say('L: a story');
    await answer().getByText('Once upon a time').waitFor();
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    t.ok(
      await eventually(async () =>
        [...(await owned.server.metrics())].some(
          ([name, value]) => name.startsWith('monolith_sequences_running') && value > 0,
        ),
      ),
    );
    await page.keyboard.press('Escape');
    await answer().getByText('Stopped by you').waitFor();
    t.ok(
      await eventually(async () =>
        [...(await owned.server.metrics())].every(
          ([name, value]) => !name.startsWith('monolith_sequences_running') || value === 0,
        ),
      ),
      'the engine stopped generating',
    );
    await page.getByRole('button', { name: 'New chat' }).click(); // the text generated so far may fill the context
    await say('L: another');
    await answer().getByText('Once upon a time').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await answer().getByText('Stopped by you').waitFor();
    await page.getByRole('button', { name: 'New chat' }).click();
    await page.getByRole('heading', { name: 'Send a message to hal-1.0' }).waitFor();
  });

  await t.test('a tool call is shown and takes a result, with which the conversation continues', async (t) => {
    await settings.getByRole('button', { name: 'Insert example' }).click();
    t.match(await settings.getByLabel('Tools').inputValue(), /get_weather/);
    await say('K: weather in Oslo?');
    const call = answer().getByRole('region', { name: 'Tool call get_weather' });
    await finished();
    t.equal(await call.getByLabel('Arguments of get_weather').innerText(), '{\n  "location": "Oslo"\n}');
    t.match(await answer().innerText(), /Let me look\./);
    await composer.fill('more');
    t.equal(
      await page.getByRole('button', { name: 'Send' }).isDisabled(),
      true,
      'sending is disabled until the tool result is given',
    );
    await composer.fill('');
    await checkLook(page, 'playground-tool', { fullPage: false });
    await call.getByLabel('Result of get_weather').fill('T: 14 C');
    await answer().getByRole('button', { name: 'Continue with this result' }).click();
    await answer().getByText('It is 14 degrees in Paris.').waitFor();
    await finished();
    t.equal(await page.getByLabel('Result of get_weather').innerText(), 'T: 14 C', 'the result stays visible');
    await checkLook(page, 'playground-answer', { fullPage: false });
  });

  await t.test('the generated code runs and produces the same response', async (t) => {
    const { secret } = await owned.owner.post<ApiKeyObject & { secret: string }>(
      `/organizations/${owned.organization.id}/api-keys`,
      { name: 'code' },
    );
    await page.getByRole('button', { name: 'View code' }).click();
    const dialog = page.getByRole('dialog', { name: 'View code' });
    const codeOf = async (label: string): Promise<string> => {
      await dialog.getByRole('tab', { name: label, exact: true }).click();
      return await dialog.getByRole('region').innerText();
    };
    const curl = await codeOf('curl'),
      javascript = await codeOf('JavaScript (openai)'),
      anthropic = await codeOf('JavaScript (@anthropic-ai/sdk)'),
      python = await codeOf('Python (openai)');
    await checkLook(page, 'playground-code', { fullPage: false });
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    for (const code of [curl, javascript, anthropic, python]) t.match(code, /MONOLITH_KEY/);
    // The directory is inside the repository so that imports find the client packages.
    const folder = mkdtempSync(join(root, 'build', 'code-'));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const run = (command: string, args: string[]): Promise<string> =>
      new Promise((resolve) => {
        const child = spawn(command, args, {
          cwd: folder,
          env: { ...process.env, MONOLITH_KEY: secret },
          timeout: 60_000,
        });
        let output = '';
        child.stdout.on('data', (data) => {
          output += data;
        });
        child.stderr.on('data', (data) => {
          output += data;
        });
        child.on('close', () => resolve(output));
        child.on('error', (error) => resolve(error.message));
      });
    writeFileSync(join(folder, 'openai.mjs'), javascript);
    writeFileSync(join(folder, 'anthropic.mjs'), anthropic);
    t.match(await run(process.execPath, ['openai.mjs']), 'It is 14 degrees in Paris.');
    t.match(await run(process.execPath, ['anthropic.mjs']), /It is 14 degrees in Paris\.[\s\S]*input_tokens/);
    const said = await run('sh', ['-c', curl.replace('curl -N', 'curl -sN')]);
    t.match(
      said.includes('not found') ? 'data: [DONE]' : said,
      'data: [DONE]',
      'the curl command works, where curl is installed',
    );
  });

  await t.test('an invalid setting is reported next to its field, and valid ones are sent', async (t) => {
    await page.getByRole('button', { name: 'New chat' }).click();
    await settings.getByRole('button', { name: 'Remove tools' }).click();
    await settings.getByLabel('Temperature').fill('3');
    await settings.getByText('Must be between 0 and 2.').waitFor();
    await composer.fill('L: a story');
    t.equal(await page.getByRole('button', { name: 'Send' }).isDisabled(), true);
    await settings.getByLabel('Temperature').fill('0');
    await settings.getByLabel('Tools').fill('[{');
    await settings.getByLabel('Tools').blur();
    await settings.getByText(/Invalid JSON/).waitFor();
    await settings.getByLabel('Tools').fill('');
    await settings.getByLabel('Max output tokens').fill('3000');
    await settings.getByLabel('Reasoning effort').selectOption('none');
    await composer.press('Enter');
    await answer().getByText('Stopped at max tokens').waitFor();
    t.match(await answer().getByLabel('Usage').innerText(), /Completion\s*3,000[\s\S]*tokens\/s/);
    await page.getByRole('button', { name: 'New chat' }).click(); // the generated text fills the context
    await settings.getByLabel('Max output tokens').fill('');
    await settings.getByRole('radio', { name: 'JSON Schema' }).check();
    t.match(
      await settings.getByLabel('JSON Schema').last().inputValue(),
      /"properties"/,
      'the field contains an example at first',
    );
    const sent = page.waitForRequest((request) => request.url().endsWith('/playground'));
    await say('J: a person');
    t.match((await sent).postDataJSON(), {
      temperature: 0,
      reasoning_effort: 'none',
      stream: true,
      response_format: { type: 'json_schema', json_schema: { strict: true } },
    });
    await finished();
    const text = await answer().locator('.answer-text .code-block code').innerText();
    t.same(JSON.parse(text), { name: 'Ada', age: 36, tags: ['math', 'engines'] });
    t.match(text, '\n  "age": 36,', 'JSON is shown as JSON');
    await page.reload();
    t.equal(await settings.getByLabel('Temperature').inputValue(), '0', 'settings survive a reload');
    await settings.getByRole('button', { name: 'Reset to defaults' }).click();
    t.equal(await settings.getByLabel('Temperature').inputValue(), '');
  });

  await t.test('token probabilities color each token, and hovering shows the alternatives', async (t) => {
    await settings.getByLabel('Token probabilities').selectOption('With 5 alternatives');
    await say('E: greet');
    await finished();
    const tokens = answer().locator('.token');
    t.ok((await tokens.count()) > 2, 'there is one element per token');
    await tokens.nth(1).hover();
    const facts = answer().locator('.token-facts');
    await facts.getByRole('list', { name: 'Alternatives' }).waitFor();
    t.ok((await facts.getByRole('listitem').count()) >= 4);
    t.match(await facts.innerText(), /\d %|%/, 'each alternative has its probability');
    t.match(await tokens.nth(1).getAttribute('class'), /chosen/);
    await checkLook(page, 'playground-tokens', { fullPage: false, few: true });
    await page.getByRole('group', { name: 'Tokens with their probabilities' }).focus();
    await page.keyboard.press('ArrowRight');
    t.match(await tokens.nth(2).getAttribute('class'), /chosen/, 'tokens can be selected with the keyboard');
    await settings.getByRole('button', { name: 'Reset to defaults' }).click();
  });

  await t.test('images are refused with a reason, or shown and sent', async (t) => {
    const drop = async (name: string, type: string, bytes: number[]): Promise<void> => {
      const file = `new File([new Uint8Array(${JSON.stringify(bytes)})], ${JSON.stringify(name)}, { type: ${JSON.stringify(type)} })`;
      const data = await page.evaluateHandle(
        `(() => { const transfer = new DataTransfer(); transfer.items.add(${file}); return transfer; })()`,
      );
      await page.getByRole('form', { name: 'Your message' }).dispatchEvent('drop', { dataTransfer: data });
    };
    const png = [
      ...Buffer.from(
        'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
        'base64',
      ),
    ];
    await drop('dot.png', 'image/png', png);
    await page.getByText('hal-1.0 accepts text only. Remove the images or choose another model.').waitFor();
    // None of these models supports images. This route makes the page believe that clarke-1.0 does. The API accepts
    // images for this model anyway.
    await page.route('**/models', async (route) => {
      const response = await route.fetch();
      const body = (await response.json()) as { data: { id: string; input_modalities: string[] }[] };
      for (const model of body.data) if (model.id === 'clarke-1.0') model.input_modalities.push('image');
      await route.fulfill({ response, json: body });
    });
    await page.reload();
    await settings.getByLabel('Model', { exact: true }).selectOption('clarke-1.0');
    await drop('film.mp4', 'video/mp4', [1, 2]);
    await drop('vector.svg', 'image/svg+xml', [60]);
    await page.getByText('vector.svg: only PNG, JPEG, WebP and GIF images are supported.').waitFor();
    await drop('dot.png', 'image/png', png);
    await page.getByRole('button', { name: 'Remove dot.png' }).waitFor();
    const sent = page.waitForRequest((request) => request.url().endsWith('/playground'));
    await say('A: what is this?');
    t.match((await sent).postDataJSON(), {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: /^data:image\/png;base64,iVBOR/ } },
            { type: 'text', text: 'A: what is this?' },
          ],
        },
      ],
    });
    await finished();
    t.equal(
      await page.locator('article.user img').evaluate((image: { naturalWidth: number }) => image.naturalWidth),
      1,
      'the content security policy allows the image',
    );
    await page.unroute('**/models');
  });

  await t.test('API errors are shown with their code and request id', async (t) => {
    const { owner, organization } = owned;
    await owner.patch(`/operator/organizations/${organization.id}`, { limits: { '*': { rpm: 1 } } });
    await page.reload();
    for (let turn = 0; turn < 2; turn++) {
      await say('A: x');
      await answer()
        .getByText(/Total|request req_/)
        .first()
        .waitFor();
    }
    const alert = answer().getByRole('alert');
    t.match(await alert.innerText(), /rpm_limit_exceeded/);
    t.match(await alert.innerText(), /HTTP 429/);
    t.match(await alert.innerText(), /try again in \d+ seconds?/);
    t.match(await alert.innerText(), /req_\w{24}/);
    await checkLook(page, 'playground-error', { fullPage: false });
    await owner.patch(`/operator/organizations/${organization.id}`, { limits: {} });
    await page.getByRole('button', { name: 'Regenerate' }).click();
    await answer().getByText('End of turn').waitFor();
    await answer().getByRole('alert').waitFor({ state: 'detached' });
  });

  await t.test('on a phone the settings collapse and the page does not scroll sideways', async (t) => {
    await page.setViewportSize({ width: 360, height: 740 });
    await page.getByText('Model and settings').click();
    await page.getByLabel('System prompt').waitFor();
    t.equal(await overflow(page), 0);
    await checkLook(page, 'playground-settings', { fullPage: false });
    await page.getByText('Model and settings').click();
    await say('H: hello');
    await finished();
    t.equal(await overflow(page), 0);
  });

  t.same(problems, [], 'no script error, no policy violation and no request to another host');
});

test('the playground works with the models of the repository', { skip: noBrowser, timeout: 120_000 }, async (t) => {
  const server = await startMonolith();
  t.teardown(() => server.stop());
  const owner = dashboardClient(server.url);
  await owner.signUp();
  const { page, problems } = await openSignedIn(t, server.url, owner.cookie);
  await page.goto('/dashboard/playground');
  const models = page.getByLabel('Settings', { exact: true }).getByLabel('Model', { exact: true });
  await models.waitFor();
  for (const [index, name] of (
    await models.locator('option').evaluateAll((options: { value: string }[]) => options.map(({ value }) => value))
  ).entries()) {
    await models.selectOption(name);
    await page.getByLabel('Max output tokens').fill('40');
    await page.getByLabel('Message', { exact: true }).fill('What is the capital of France?');
    await page.getByLabel('Message', { exact: true }).press('Enter');
    const answer = page.getByRole('article', { name: `Response of ${name}` });
    await answer.getByLabel('Usage').waitFor();
    t.match(await answer.getByLabel('Usage').innerText(), /Completion\s*[1-9]/, name);
    t.equal(await page.getByRole('article').count(), 2 * (index + 1));
  }
  await checkLook(page, 'playground-models', { fullPage: false });
  await page.goto('/dashboard/operator/live');
  const engines = page.getByRole('radiogroup', { name: 'Engine' }).getByRole('radio');
  await engines.first().waitFor();
  t.ok(await eventually(async () => (await engines.count()) === 4), 'there is one engine per model, and all together');
  const table = page.getByRole('table', { name: 'Engines' });
  t.equal(await table.getByRole('row').count(), 4, 'the engines are listed at a glance');
  await page.getByRole('figure', { name: /^Output tokens per second/ }).waitFor();
  await table.getByRole('button', { name: 'clarke-1.0' }).click();
  await page.getByText('Preemptions').waitFor();
  t.ok(await engines.nth(2).isChecked(), 'the name in the table selects the engine');
  await engines.last().check();
  await page.getByRole('figure', { name: /^KV pages/ }).waitFor();
  t.same(problems, []);
});
