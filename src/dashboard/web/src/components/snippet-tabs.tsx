import { useState } from 'react';
import type { ReactNode } from 'react';
import { snippets } from '../snippets.js';
import type { Snippet } from '../snippets.js';
import { CodeBlock } from './copy.js';
import { Tabs } from './tabs.js';

/** A sample request in three languages. */
export function SnippetTabs({ apiKey, model }: { apiKey: string; model: string }): ReactNode {
  const [language, setLanguage] = useState<Snippet['value']>('curl');
  return (
    <Tabs
      label="Language"
      value={language}
      onChange={setLanguage}
      tabs={snippets(apiKey, model).map(({ value, label, code }) => ({
        value,
        label,
        content: <CodeBlock label={value === 'curl' ? 'Terminal' : label} code={code} />,
      }))}
    />
  );
}
