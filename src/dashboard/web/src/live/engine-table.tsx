// All engines at a glance: one row per engine. Clicking an engine's name selects that engine.
import type { ReactNode } from 'react';
import type { EngineSample } from '../../../../shared/wire/live.js';
import { Table } from '../components/table.js';
import type { Column } from '../components/table.js';
import { showCount, showMs, showShare, usedShare } from './views.js';

export function EngineTable({
  engines,
  onSelect,
}: {
  engines: readonly EngineSample[];
  onSelect: (model: string) => void;
}): ReactNode {
  const figures: readonly { header: string; of: (engine: EngineSample) => string }[] = [
    { header: 'Running', of: ({ running }) => showCount(running) },
    { header: 'Waiting', of: ({ waiting }) => showCount(waiting) },
    { header: 'Decode, tokens/s', of: (engine) => showCount(engine.decode_tokens_per_s) },
    { header: 'Prefill, tokens/s', of: (engine) => showCount(engine.prefill_tokens_per_s) },
    { header: 'First token, p95', of: ({ ttft_ms: ttft }) => showMs(ttft?.p95 ?? null) },
    { header: 'Per token, p95', of: ({ tpot_ms: tpot }) => showMs(tpot?.p95 ?? null) },
    { header: 'KV used', of: (engine) => showShare(usedShare(engine)) },
  ];
  return (
    <div className="panel flush engine-table">
      <div className="panel-body">
        <Table
          caption="Engines"
          rows={engines}
          rowKey={({ model }) => model}
          columns={[
            {
              key: 'engine',
              header: 'Engine',
              heading: true,
              cell: ({ model, names }) => (
                <button type="button" className="link-button" onClick={() => onSelect(model)}>
                  {names.join(', ')}
                </button>
              ),
            },
            ...figures.map(
              ({ header, of }): Column<EngineSample> => ({ key: header, header, numeric: true, cell: of }),
            ),
          ]}
        />
      </div>
    </div>
  );
}
