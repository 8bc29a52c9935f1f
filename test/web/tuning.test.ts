// Tests the tuning page in a real browser against a real server: one run is started, watched and stopped, another
// completes, and the two are compared.
import t, { test } from 'tap';
import type { ListPage } from '../../src/shared/wire/list.js';
import type { TuneRunSummary } from '../../src/shared/wire/tuning.js';
import {
  figure,
  paretoFrontOf,
  linearAxis,
  logAxis,
  progressOf,
  secondsLeft,
  spotsOf,
  objectiveProblems,
  objectiveText,
  sloOf,
  startOf,
  FIRST_DRAFT,
} from '../../src/dashboard/web/src/operator/tuning-view.js';
import { eventually } from '../e2e/monolith.js';
import { noBrowser, noneWrong, openSignedIn, checkLook } from '../support/browser.js';
import { openOwned } from '../support/owned-server.js';

t.setTimeout(300_000); // the machine may be busy

test('the numbers and axes of the tuning page are formatted', async (t) => {
  t.same([1234.5, 99.94, 0.01234, 0].map(figure), ['1,235', '99.9', '0.0123', '0']);
  t.same(linearAxis([3.7]), { min: 0, max: 4, ticks: [0, 1, 2, 3, 4] });
  t.same(linearAxis([]), { min: 0, max: 1, ticks: [0, 0.5, 1] });
  t.same(logAxis([30, 180]), { min: 20, max: 200, ticks: [20, 50, 100, 200] });
  t.same(logAxis([0.5, 90_000]).ticks, [1, 10, 100, 1_000, 10_000, 100_000]);
  const trial = {
    number: 1,
    phase: 'search' as const,
    settings: { max_batch_tokens: 1, max_sequences: 1, step_ms: 1 },
    load: 1,
    seconds: 2,
    throughput: 1,
    goodput: 1,
    output_tokens_per_s: 1,
    ttft_ms: [1, 9] as [number, number],
    itl_ms: null,
    verdicts: [],
    met: true,
    stopped: false,
    errors: {},
    front: true,
  };
  t.same(
    spotsOf([trial, { ...trial, stopped: true }, { ...trial, ttft_ms: null }]).map(({ x, y }) => [x, y]),
    [[9, 1]],
  );
  t.same(
    paretoFrontOf(spotsOf([trial, { ...trial, ttft_ms: [1, 5], goodput: 0.5 }, { ...trial, front: false }])).map(
      ({ x }) => x,
    ),
    [5, 9],
  );
  t.equal(secondsLeft({ state: 'running', trials: [trial], trials_planned: 16, trial_s: 1 }), 30);
  t.equal(secondsLeft({ state: 'done', trials: [], trials_planned: 16, trial_s: 1 }), null);
  t.equal(progressOf({ state: 'running', trials_done: 4, trials_planned: 16 }), 0.25);
  t.equal(sloOf({ ttft: ' 500 ', itl: '', errors: '1', percentile: 'p95' }), 'ttft_p95=500ms,errors=1%');
  t.same(objectiveProblems({ ttft: 'x', itl: '0', errors: '101', percentile: 'p99' }), {
    ttft: 'must be a number above 0.',
    itl: 'must be a number above 0.',
    errors: 'must be a number above 0, at most 100.',
  });
  t.same(Object.keys(objectiveProblems({ ttft: '', itl: ' ', errors: '', percentile: 'p99' })), ['ttft']);
  t.equal(objectiveText('ttft_p99=500ms'), 'Time to first token p99 ≤ 500 ms');
  t.equal(objectiveText('errors=1%'), 'Failed requests ≤ 1%');
  t.same(startOf({ ...FIRST_DRAFT, model: 'm', workload: 'fixed', maxLoad: ' 8 ' }), {
    model: 'm',
    slo: 'ttft_p99=500ms,itl_p99=50ms',
    workload: { kind: 'fixed', prompt_tokens: 256, output_tokens: 64 },
    load: 'concurrency',
    max_load: 8,
    trials: 40,
    trial_s: 10,
    apply: false,
  });
});

test('a tuning run can be started, stopped and compared', { skip: noBrowser, timeout: 300_000 }, async (t) => {
  const owned = await openOwned();
  t.teardown(() => owned.close());
  const { owner, server } = owned;
  const opened = await openSignedIn(t, server.url, owner.cookie);
  const { page } = opened;
  const runs = async (): Promise<TuneRunSummary[]> =>
    (await owner.get<ListPage<TuneRunSummary>>('/operator/tuning')).data;

  await page.goto('/dashboard/operator/tuning');
  await page.getByRole('tab', { name: 'Tuning runs' }).click();
  await page.getByText('No runs yet').waitFor();
  const form = page.getByRole('form', { name: 'Start a run' });
  const fill = async (label: string, value: string): Promise<void> => {
    await form.getByLabel(label, { exact: true }).fill(value);
  };
  await form.getByLabel('Workload').selectOption('fixed');
  await fill('Prompt tokens', '30');
  await fill('Output tokens', '6');
  await form.getByLabel('Maximum load').fill('6');
  await fill('Measurements', '3');
  await fill('Seconds per measurement', '0.01');
  await fill('Time to first token (ms)', 'soon');
  await form.getByRole('button', { name: 'Start' }).click();
  await form.getByText('Time to first token must be a number above 0.').waitFor();
  await fill('Time to first token (ms)', '60000');
  await fill('Inter-token latency (ms)', '60000');
  await form.getByLabel('Latencies hold for').selectOption('p90');
  t.equal(await form.getByText(/^Takes at most/).count(), 0, 'a duration that the server refuses is not announced');
  await form.getByRole('button', { name: 'Start' }).click();
  await form.getByText('Measurements must be at least 16.').waitFor();
  await form.getByText('Seconds per measurement must be at least 0.2.').waitFor();
  await fill('Measurements', '16');
  await fill('Seconds per measurement', '0.4');
  await form.getByText('Takes at most about 9.0 s.').waitFor();

  // The first run is watched and stopped.
  await form.getByRole('button', { name: 'Start' }).click();
  await page.getByText('Running').first().waitFor();
  await page
    .getByText(/^[1-9]\d* of 16 measurements/)
    .first()
    .waitFor();
  t.equal(await form.getByRole('button', { name: 'Start' }).isDisabled(), true, 'only one run can be active at a time');
  await page.getByRole('img', { name: /^Goodput against .*: \d+ measurements$/ }).waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped early.').waitFor();
  t.ok(await eventually(async () => (await runs())[0]?.state === 'stopped'));

  // A run that completes.
  await form.getByRole('button', { name: 'Start', disabled: false }).click();
  t.ok(await eventually(async () => (await runs())[0]?.state === 'done'));
  await page.getByText('16 of 16 measurements').waitFor();
  await page
    .getByRole('table', { name: 'Settings before and recommended' })
    .getByText('Before', { exact: true })
    .waitFor();
  await page.getByText('16 measurements', { exact: true }).click();
  t.equal(await page.getByRole('table', { name: 'Measurements' }).getByRole('row').count(), 17);
  t.ok((await page.locator('.front-met').count()) > 0);
  await checkLook(page, 'operator-tuning');

  // Both runs are compared; the URL keeps the selection.
  const boxes = page.getByRole('table', { name: 'Tuning runs' }).getByRole('checkbox');
  await boxes.nth(1).check();
  const compared = page.getByRole('table', { name: 'Two runs compared' });
  await compared.getByText('No better settings found').or(compared.getByText('Better settings found')).waitFor();
  await compared.getByText('stopped').waitFor();
  t.equal(await page.locator('.front-key').count(), 2);
  await page.reload();
  await compared.waitFor();
  await checkLook(page, 'operator-tuning-compared');
  await noneWrong(t, opened, 'tuning');
});
