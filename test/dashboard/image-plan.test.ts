// Tests the playground's image plan, that is, the tiles and tokens into which a vision model divides an image of a
// given size, and who may request it.
import { join } from 'node:path';
import t from 'tap';
import { seenText } from '../../src/dashboard/web/src/playground/seen-text.js';
import { packageRoot } from '../../src/engine/load-addon.js';
import type { DashboardImagePlan } from '../../src/shared/wire/playground.js';
import { embeddedModel, eventually } from '../e2e/monolith.js';
import { refusal } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

const pair = join(packageRoot, 'test', 'data', 'vision');
const dashboard = await startDashboard({
  model: { 'hal-1.0': embeddedModel, 'seeing-1.0': join(pair, 'text-llama-bpe.gguf') },
  models: { 'seeing-1.0': { vision: join(pair, 'idefics3.mmproj.gguf') } },
});
t.teardown(() => dashboard.close());
const client = dashboard.client();
const {
  organization: { id },
} = await client.signUp();
const path = (query: string): string => `/organizations/${id}/playground/image?${query}`;

t.test('the plan of an image lists its tiles, the overview and the token count', async (t) => {
  t.ok(await eventually(async () => (await client.fetch(path('model=seeing-1.0&width=8&height=8'))).status === 200));
  const plan = await client.get<DashboardImagePlan>(path('model=seeing-1.0&width=400&height=300'));
  const tiles = plan.columns * plan.rows;
  t.ok(tiles > 1);
  t.equal(plan.pieces.length, tiles + 1);
  t.match(plan, { width: 400, height: 300, pieces: [{ part: 'tile', width: 112, height: 112 }] });
  t.match(plan.pieces.at(-1), { part: 'overview' });
  t.ok(
    plan.tokens > plan.pieces.length * 16,
    'the token count includes the embeddings and the marker tokens around them',
  );
  t.match(
    seenText(plan),
    new RegExp(
      `^400 × 300, processed in ${plan.columns} × ${plan.rows} tiles of 112 × 112 and as a whole, \\d+ tokens$`,
    ),
  );
});

t.test('a model without vision, an unknown model and invalid queries are refused', async (t) => {
  t.match(await refusal(client.get(path('model=hal-1.0&width=8&height=8'))), {
    status: 422,
    code: 'model_not_vision',
    param: 'model',
  });
  t.match(await refusal(client.get(path('model=none-1.0&width=8&height=8'))), { status: 404, code: 'model_not_found' });
  t.match(await refusal(client.get(path('width=8&height=8'))), {
    status: 400,
    code: 'invalid_query_parameter',
    param: 'model',
  });
  for (const width of ['', '0', '-1', '1.5', '9999999']) {
    t.match(
      await refusal(client.get(path(`model=seeing-1.0&width=${width}&height=8`))),
      { status: 400, code: 'invalid_query_parameter', param: 'width' },
      width,
    );
  }
  t.match(await refusal(client.get(path('model=seeing-1.0&width=65537&height=65537'))), {
    status: 422,
    code: 'invalid_image',
  });
  t.match(await refusal(dashboard.client().get(path('model=seeing-1.0&width=8&height=8'))), { status: 401 });
});

t.test('seenText() describes images with and without tiles', async (t) => {
  t.equal(
    seenText({
      width: 300,
      height: 200,
      tokens: 256,
      columns: 1,
      rows: 1,
      pieces: [{ part: 'image', width: 896, height: 896 }],
    }),
    '300 × 200, processed as 896 × 896, 256 tokens',
  );
  t.equal(
    seenText({
      width: 9,
      height: 9,
      tokens: 1_024,
      columns: 0,
      rows: 0,
      pieces: [{ part: 'overview', width: 448, height: 448 }],
    }),
    '9 × 9, processed as 448 × 448, 1,024 tokens',
  );
});
