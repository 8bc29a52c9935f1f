// Playground: chat with a model over the public API, with streaming, thinking, tools and images, and view the
// equivalent code.
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import type { ReactNode } from 'react';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import { Button, LinkButton } from '../components/button.js';
import { Icon } from '../components/icon.js';
import type { IconName } from '../components/icon.js';
import { Code, PageHeader } from '../components/page.js';
import { EmptyState, Loaded, Notice, Skeleton } from '../components/states.js';
import { CodeDialog } from '../playground/code-dialog.js';
import { Composer } from '../playground/composer.js';
import { Compared, useAll } from '../playground/compared.js';
import type { ComparedColumn } from '../playground/compared.js';
import { beforeLastAnswer } from '../playground/conversation.js';
import type { Turn } from '../playground/conversation.js';
import { bodyOf } from '../playground/dialogue.js';
import type { Dialogue } from '../playground/dialogue.js';
import { dialogueOf, storeCompared, storedCompared, storedSettings, storeSettings } from '../playground/dialogues.js';
import { currentId, remember, setCurrentId, titleOf } from '../playground/history.js';
import { HistoryDialog } from '../playground/history-dialog.js';
import { openContent } from '../playground/open-content.js';
import type { Opened } from '../playground/open-content.js';
import { contentOf } from '../playground/saved.js';
import { SaveDialog } from '../playground/save-dialog.js';
import { SettingsPanel } from '../playground/settings-panel.js';
import { NO_SETTINGS, readSettings } from '../playground/settings.js';
import type { Settings } from '../playground/settings.js';
import { Transcript } from '../playground/transcript.js';
import { useModels } from '../queries.js';
import { useMe, useOrganization } from '../session.js';
import '../styles/playground.css';

export function Playground(): ReactNode {
  const organization = useOrganization();
  const models = useModels();
  if (!organization.may('developer')) {
    return (
      <>
        <PageHeader title="Playground" />
        <EmptyState icon="playground" title="Not available for your role">
          Playground requests count toward the organization's limits and usage, so you need the developer role or
          higher. Ask an admin to change your role.
        </EmptyState>
      </>
    );
  }
  return (
    <Loaded
      query={models}
      loading={
        <>
          <PageHeader title="Playground" />
          <Skeleton rows={4} height={32} />
        </>
      }
    >
      {(data) => {
        const served = data.filter(
          ({ lifecycle, task }) => lifecycle !== 'retired' && (task === null || task === 'generation'),
        );
        return served.length === 0 ? (
          <>
            <PageHeader title="Playground" />
            <EmptyState icon="models" title="No models are served">
              The operator has not added a model to this server yet.
            </EmptyState>
          </>
        ) : (
          <Room models={served} organizationId={organization.id} />
        );
      }}
    </Loaded>
  );
}

function Room({ models, organizationId }: { models: readonly DashboardModel[]; organizationId: string }): ReactNode {
  const dialogue = dialogueOf(organizationId, 0);
  const { turns, running } = useSyncExternalStore(dialogue.subscribe, dialogue.state);
  const [chosen, setSettings] = useState(() => {
    const model = new URLSearchParams(location.search).get('model');
    return model === null ? storedSettings() : { ...storedSettings(), model };
  });
  const [compared, setCompared] = useState(storedCompared);
  const [code, setCode] = useState(false);
  const [open, setOpen] = useState<'save' | 'history' | null>(null);
  const { user } = useMe();
  const { status } = useOrganization();
  const [said, setSaid] = useState('');
  const settings = useMemo(
    () => (models.some(({ id }) => id === chosen.model) ? chosen : { ...chosen, model: firstModel(models) }),
    [models, chosen],
  );
  const model = models.find(({ id }) => id === settings.model);
  const read = useMemo(() => readSettings(withoutForeignEffort(settings, model)), [settings, model]);
  const problems = 'problems' in read ? read.problems : {};
  const ask = 'fields' in read ? { system: settings.system, fields: read.fields } : null;
  const sees = model?.input_modalities.includes('image') ?? false;
  const columns: ComparedColumn[] = [
    settings.model,
    ...compared.filter((name) => models.some(({ id }) => id === name)),
  ].map((name, at) => {
    const ofModel =
      at === 0
        ? read
        : readSettings(
            withoutForeignEffort(
              { ...settings, model: name },
              models.find(({ id }) => id === name),
            ),
          );
    return {
      model: name,
      dialogue: dialogueOf(organizationId, at),
      ask: 'fields' in ofModel ? { system: settings.system, fields: ofModel.fields } : null,
    };
  });
  const all = useAll(columns.map((column) => column.dialogue));
  const compares = columns.length > 1;
  const composer = useRef<HTMLTextAreaElement>(null);

  const change = (next: Settings): void => {
    setSettings(next);
    storeSettings(next);
  };
  const compare = (names: readonly string[]): void => {
    setCompared([...names]);
    storeCompared(names);
  };
  const add = (): void => {
    const names = columns.map(({ model: name }) => name);
    const next = models.find(({ id, state }) => state !== 'failed' && !names.includes(id)) ?? models[0];
    if (next === undefined) return;
    dialogueOf(organizationId, columns.length).open([]);
    compare([...names.slice(1), next.id]);
  };
  // Removes a column. Later columns and their conversations move up.
  const remove = (at: number): void => {
    const left = columns.filter((_, column) => column !== at);
    const said = left.map((column) => column.dialogue.state().turns);
    said.forEach((turns, column) => dialogueOf(organizationId, column).open(turns));
    const [first, ...others] = left.map(({ model: name }) => name);
    change({ ...settings, model: first ?? settings.model });
    compare(others);
  };
  const stop = (): void => {
    for (const column of columns) column.dialogue.stop();
  };
  const clear = (): void => {
    for (const column of columns) column.dialogue.clear();
    setCurrentId(organizationId);
    setSaid('New conversation');
    composer.current?.focus();
  };
  const start = (answer: Promise<void>): void => {
    setSaid('');
    void answer.then(() => setSaid(outcome(dialogue)));
  };

  useEffect(() => {
    const escape = (event: KeyboardEvent): void => {
      if (event.key !== 'Escape' || document.querySelector('dialog[open]') !== null) return;
      stop();
    };
    window.addEventListener('keydown', escape);
    return () => window.removeEventListener('keydown', escape);
  });
  useEffect(() => () => dialogue.stop(), [dialogue]); // closing the page stops the stream

  const content = contentOf(
    settings,
    columns.map((column) => ({ model: column.model, turns: column.dialogue.state().turns })),
  );
  const title = all.begun ? titleOf(content) : '';
  // A conversation is saved to the history when its responses are complete.
  useEffect(() => {
    if (all.running || title === '') return;
    const at = new Date().toISOString();
    remember(localStorage, user.id, organizationId, { id: currentId(organizationId), title, at, content });
    // Saves the content as it was when the responses ended. eslint-disable-next-line react-hooks/exhaustive-deps
  }, [all.running, title]);
  const show = (opened: Opened, id?: string): void => {
    setCurrentId(organizationId, id);
    setSettings(opened.settings);
    setCompared(opened.compared);
    setOpen(null);
  };

  const again = ask === null || running || turns.length === 0 ? undefined : () => start(dialogue.regenerate(ask));
  return (
    <div className="playground">
      <PageHeader
        title="Playground"
        actions={
          <>
            <HeaderButton icon="plus" name="New chat" onClick={clear} disabled={!all.begun} />
            <HeaderButton icon="history" name="History" onClick={() => setOpen('history')} />
            {!compares && models.length > 1 && (
              <HeaderButton icon="compare" name="Compare" onClick={add} disabled={all.running} />
            )}
            <HeaderButton icon="code" name="View code" onClick={() => setCode(true)} disabled={ask === null} />
            <HeaderButton icon="share" name="Save" onClick={() => setOpen('save')} />
          </>
        }
      >
        {title === '' ? 'New conversation' : <span className="conversation-title">{title}</span>}
      </PageHeader>
      <div className={columns.length > 2 ? 'playground-room folded' : 'playground-room'}>
        <section className="conversation" aria-label="Conversation">
          {compares && (
            <Compared
              columns={columns}
              models={models}
              onAdd={add}
              onRemove={remove}
              onModel={(at, name) =>
                at === 0
                  ? change({ ...settings, model: name })
                  : compare(columns.slice(1).map((column, index) => (index === at - 1 ? name : column.model)))
              }
            />
          )}
          {!compares && (
            <Transcript
              turns={turns}
              running={running}
              onRegenerate={again}
              onEdit={ask === null || running ? undefined : (id, text) => start(dialogue.sayInstead(id, text, ask))}
              onResults={ask === null || running ? undefined : (results) => start(dialogue.giveResults(results, ask))}
              empty={
                <Welcome
                  model={model}
                  onSay={ask === null ? undefined : (text) => start(dialogue.say(text, [], ask))}
                />
              }
            />
          )}
          {model !== undefined && model.state !== 'ready' && <Notice tone="warn">{STATE_TEXTS[model.state]}</Notice>}
          <Composer
            ref={composer}
            running={all.running}
            sees={sees}
            model={settings.model}
            modelName={compares ? `${columns.length} models` : settings.model}
            blocked={
              status === 'suspended'
                ? 'The organization is suspended.'
                : all.waits
                  ? 'Enter the result of the tool call above, then select Continue.'
                  : ask === null
                    ? 'One of the settings is invalid.'
                    : null
            }
            onSay={(text, pictures) => {
              for (const column of columns.slice(1))
                if (column.ask !== null)
                  void column.dialogue.say(text, seesPictures(models, column.model) ? pictures : [], column.ask);
              if (ask !== null) start(dialogue.say(text, pictures, ask));
            }}
            onStop={stop}
          />
        </section>
        <SettingsFrame folded={columns.length > 2} name={compares ? 'Settings' : 'Model and settings'}>
          <SettingsPanel
            models={models}
            isCompared={compares}
            settings={settings}
            problems={problems}
            onChange={(part) => change({ ...settings, ...part })}
            onReset={() => change({ ...NO_SETTINGS, model: settings.model })}
          />
        </SettingsFrame>
      </div>
      <p className="visually-hidden" role="status">
        {said}
      </p>
      {open === 'save' && (
        <SaveDialog
          title={title}
          preset={contentOf(
            settings,
            columns.map(({ model: name }) => ({ model: name, turns: [] })),
          )}
          conversation={all.begun ? content : null}
          onClose={() => setOpen(null)}
        />
      )}
      {open === 'history' && (
        <HistoryDialog
          onOpenEntry={(entry) =>
            show(openContent(organizationId, { kind: 'conversation', content: entry.content }), entry.id)
          }
          onOpenSaved={(item) => show(openContent(organizationId, item))}
          onClose={() => setOpen(null)}
        />
      )}
      {code && ask !== null && <CodeDialog body={bodyOf(ask, requestTurns(turns))} onClose={() => setCode(false)} />}
    </div>
  );
}

/** A button of the page header. On phones, only its icon is shown. */
function HeaderButton({
  icon,
  name,
  ...rest
}: {
  icon: IconName;
  name: string;
  onClick: () => void;
  disabled?: boolean;
}): ReactNode {
  return (
    <Button size="small" title={name} {...rest}>
      <Icon name={icon} />
      <span className="action-name">{name}</span>
    </Button>
  );
}

/** A sidebar on wide screens. Collapsed on narrow screens, and when columns need the width. */
function SettingsFrame({ folded, name, children }: { folded: boolean; name: string; children: ReactNode }): ReactNode {
  const [wide, setWide] = useState(() => matchMedia(WIDE).matches);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const query = matchMedia(WIDE);
    const follow = (): void => setWide(query.matches);
    query.addEventListener('change', follow);
    return () => query.removeEventListener('change', follow);
  }, []);
  if (wide && !folded)
    return (
      <aside className="settings-side" aria-label="Settings">
        {children}
      </aside>
    );
  return (
    <details className="settings-fold" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="settings" /> {name}
      </summary>
      {children}
    </details>
  );
}
const WIDE = '(min-width: 1100px)';

const STATE_TEXTS: Record<DashboardModel['state'], string> = {
  loading: 'This model is still loading. Requests are refused until it is ready.',
  failed: 'This model failed to load. Choose another one.',
  idle: 'This model is not loaded. The first response waits until it is loaded.',
  unloaded: 'This model is not loaded. Choose another one.',
  ready: '',
};

/** Sample prompts: one set for models in general, and one for the small demonstration model. */
const IDEAS = ['What is a prefix cache?', 'Write a haiku about a lighthouse.', 'What is 17 times 23?'];
const SMALL_IDEAS = [
  'Hello!',
  'Who are you?',
  'What is the capital of France?',
  'What is 7 plus 5?',
  'List three fruits.',
  'Extract name, city, item as JSON.\n\nNoor from Perth ordered 3 lamps on 5 May.',
];

function Welcome({
  model,
  onSay,
}: {
  model: DashboardModel | undefined;
  onSay: ((text: string) => void) | undefined;
}): ReactNode {
  const small = model?.demonstration === true;
  const ideas = small ? SMALL_IDEAS : IDEAS;
  return (
    <div className="state">
      <span className="state-icon">
        <Icon name="playground" size={24} />
      </span>
      <h2>Send a message to {model?.display_name ?? 'a model'}</h2>
      {small && (
        <div className="state-text">
          A small demonstration model, trained for this project. It can hold a short conversation and do small tasks. To
          add a full-size model, the operator runs <Code>monolith pull OWNER/REPO</Code>.
        </div>
      )}
      <div className="state-text">
        Requests here count toward the organization's limits and usage like any other requests.
      </div>
      <div className="ideas">
        {ideas.map((idea) => (
          <Button key={idea} size="small" disabled={onSay === undefined} onClick={() => onSay?.(idea)}>
            {idea}
          </Button>
        ))}
      </div>
      <LinkButton href="/models" variant="ghost" size="small">
        About the models
      </LinkButton>
    </div>
  );
}

const seesPictures = (models: readonly DashboardModel[], name: string): boolean =>
  models.find(({ id }) => id === name)?.input_modalities.includes('image') === true;

function firstModel(models: readonly DashboardModel[]): string {
  return (
    (
      models.find(({ state, lifecycle }) => state === 'ready' && lifecycle === 'active') ??
      models.find(({ state }) => state === 'ready') ??
      models[0]
    )?.id ?? ''
  );
}

/** The turns that were sent in the request for the latest response. */
function requestTurns(turns: readonly Turn[]): readonly Turn[] {
  return turns.at(-1)?.kind === 'answer' ? beforeLastAnswer(turns) : turns;
}

// Resets the chosen reasoning effort if the new model does not support it.
function withoutForeignEffort(settings: Settings, model: DashboardModel | undefined): Settings {
  return model === undefined || model.reasoning_efforts.includes(settings.effort)
    ? settings
    : { ...settings, effort: '' };
}

/** Status for screen readers. It announces only the outcome, not the streamed text. */
function outcome(dialogue: Dialogue): string {
  const last = dialogue.state().turns.at(-1);
  if (last?.kind !== 'answer') return '';
  const { state, calls } = last.answer;
  if (state === 'failed') return 'The request failed.';
  if (state === 'stopped') return 'Stopped.';
  return calls.length > 0 ? 'The model called a tool and is waiting for its result.' : 'The response is complete.';
}
