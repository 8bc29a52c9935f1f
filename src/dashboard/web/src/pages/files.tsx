// The organization's files and batches: view, download and delete files; view and cancel batches.
import { useState } from 'react';
import type { ReactNode } from 'react';
import { PageHeader } from '../components/page.js';
import { Tabs } from '../components/tabs.js';
import { BatchesPanel } from './batches-panel.js';
import { FilesPanel } from './files-panel.js';

export function Files(): ReactNode {
  const [tab, setTab] = useState<'files' | 'batches'>('files');
  return (
    <>
      <PageHeader title="Files and batches">
        Files are uploaded with the Files API, or created by batches. A batch runs many requests in the background. The
        audit log records downloads.
      </PageHeader>
      <Tabs
        label="Files or batches"
        value={tab}
        onChange={setTab}
        tabs={[
          { value: 'files', label: 'Files', content: <FilesPanel /> },
          { value: 'batches', label: 'Batches', content: <BatchesPanel /> },
        ]}
      />
    </>
  );
}
