// Shows the playground's request as code in several languages.
import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { CodeBlock } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Tabs } from '../components/tabs.js';
import type { ChatBody } from './chat-wire.js';
import { codeFor, KEY_VARIABLE, LANGUAGES } from './code.js';
import type { Language } from './code.js';

export function CodeDialog({ body, onClose }: { body: ChatBody; onClose: () => void }): ReactNode {
  const [language, setLanguage] = useState<Language>('curl');
  return (
    <Dialog title="View code" onClose={onClose} size="wide">
      <p className="hint">
        {body.messages.some(({ role }) => role === 'user')
          ? 'The request that produced the latest response'
          : 'The settings, without a message'}
        , sent with an API key from the environment variable <code>{KEY_VARIABLE}</code>. Create a key under{' '}
        <Link href="/keys">API keys</Link>.
      </p>
      <Tabs<Language>
        label="Language"
        value={language}
        onChange={setLanguage}
        tabs={LANGUAGES.map(({ id, label }) => ({
          value: id,
          label,
          content: <CodeBlock label={label} code={codeFor(id, body, location.origin)} />,
        }))}
      />
    </Dialog>
  );
}
