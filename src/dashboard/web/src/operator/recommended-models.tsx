// Recommended models: those suited to this machine's memory, or all of them.
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import { RECOMMENDED } from '../../../../shared/recommended-models.js';
import type { RecommendedModel } from '../../../../shared/recommended-models.js';
import type { DiskState, ModelPull } from '../../../../shared/wire/models.js';
import { api } from '../api.js';
import { Button } from '../components/button.js';
import { FormError, useAction } from '../components/form.js';
import { Code } from '../components/page.js';
import { Table } from '../components/table.js';
import { useToast } from '../components/toasts.js';
import { date } from '../format.js';

/** A machine sold with 16 GB reports a little less. */
const ENOUGH = 0.9 * 1e9;

/**
 * Returns the models for the largest listed memory size that this machine has. If it has less than the smallest listed
 * size, returns the models for that size.
 */
function forMemory(bytes: number): readonly RecommendedModel[] {
  const sizes = RECOMMENDED.models.map(({ memoryGb }) => memoryGb);
  const fitting = sizes.filter((size) => size * ENOUGH <= bytes);
  const size = fitting.length > 0 ? Math.max(...fitting) : Math.min(...sizes);
  return RECOMMENDED.models.filter(({ memoryGb }) => memoryGb === size);
}

export function RecommendedModels({ disk }: { disk: DiskState }): ReactNode {
  const [all, setAll] = useState(false);
  const client = useQueryClient();
  const toast = useToast();
  const action = useAction();
  const download = (ref: string): void => {
    void action.run(async () => {
      const { model } = await api.post<ModelPull>('/operator/pulls', { model: ref });
      toast(`Downloading ${model}`);
      await client.invalidateQueries({ queryKey: ['operator', 'disk'] });
    });
  };
  const onDisk = new Set(disk.models.map(({ model }) => model.toLowerCase()));
  return (
    <>
      <FormError action={action} fields={[]} />
      <Table
        caption="Recommended models"
        rows={all ? RECOMMENDED.models : forMemory(disk.memory_bytes)}
        rowKey={({ name }) => name}
        columns={[
          {
            key: 'name',
            header: 'Recommended',
            heading: true,
            cell: ({ name, ref, source }) => (
              <div>
                <a href={source} target="_blank" rel="noreferrer">
                  {name}
                </a>
                <span className="cell-sub">
                  <Code>{ref}</Code>
                </span>
              </div>
            ),
          },
          { key: 'purpose', header: 'For', cell: ({ purpose }) => purpose },
          { key: 'memory', header: 'Memory', cell: ({ memoryGb }) => `${memoryGb} GB` },
          { key: 'download', header: 'Download', cell: ({ downloadGb }) => `${downloadGb.toFixed(1)} GB` },
          { key: 'license', header: 'License', cell: ({ license }) => license },
          {
            key: 'actions',
            header: 'Actions',
            actions: true,
            cell: ({ name, ref }) =>
              onDisk.has(ref.toLowerCase()) ? (
                'On disk'
              ) : (
                <Button
                  size="small"
                  disabled={action.busy}
                  aria-label={`Download ${name}`}
                  onClick={() => download(ref)}
                >
                  Download
                </Button>
              ),
          },
        ]}
      />
      <p className="hint">
        As of {date(RECOMMENDED.date)}. Memory and download sizes are approximate.{' '}
        <Button size="small" variant="ghost" onClick={() => setAll(!all)}>
          {all ? 'Only for this memory' : 'Show all sizes'}
        </Button>
      </p>
    </>
  );
}
