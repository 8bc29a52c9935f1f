import t from 'tap';
import { EngineNotes } from '../../src/engine/engine-notes.js';
import type { NotedEngine } from '../../src/engine/engine-notes.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';

t.test('each engine note is logged once per engine', (t) => {
  const lines: string[] = [];
  const { log } = createTelemetry({ format: 'json', level: 'info', write: (line) => lines.push(line) });
  const said = (): unknown[] => lines.splice(0).map((line) => JSON.parse(line) as unknown);
  const one: NotedEngine = { model: 'm', engine: {}, stats: { failed: false, note: '' } };
  const engines = [one];
  const notes = new EngineNotes(() => engines, log);
  t.teardown(() => notes.close());
  notes.look();
  t.same(said(), []);
  one.stats.note = 'CUDA graph of 8 tokens: not enough memory for the capture';
  notes.look();
  notes.look();
  t.match(said(), [{ level: 'warn', model: 'm', note: /^CUDA graph of 8 tokens/ }]);
  one.stats.failed = true;
  engines.push({ model: 'other', engine: {}, stats: { failed: true, note: '' } });
  notes.look();
  notes.look();
  t.match(said(), [
    { level: 'error', model: 'm', msg: /stopped/ },
    { level: 'error', model: 'other' },
  ]);
  engines[0] = { ...one, engine: {} }; // a new engine object, as after the model is loaded again
  notes.look();
  t.equal(said().length, 2);
  t.end();
});
