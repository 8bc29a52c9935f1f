// A request's details: its outcome, phases, parameters and, if they are stored, its prompt and response.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { RequestDetail, RequestObject } from '../../../../shared/wire/requests.js';
import { api } from '../api.js';
import { CopyButton } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Code } from '../components/page.js';
import { Loaded, Notice, Skeleton } from '../components/states.js';
import { clock, count, date, dateTime } from '../format.js';
import { OutcomeBadge, time } from './request-table.js';

const PHASES = [
  { key: 'prepare_ms', label: 'Parse and validate', color: 7 },
  { key: 'queue_ms', label: 'Queue', color: 1 },
  { key: 'tower_ms', label: 'Images', color: 3 },
  { key: 'prefill_ms', label: 'Prefill', color: 2 },
  { key: 'decode_ms', label: 'Decode', color: 0 },
] as const;

/**
 * `path`: path of the request's list, relative to the API. `link`: address of the request, relative to /dashboard.
 * `keyName`: returns the name of an API key.
 */
export function RequestDialog({
  id,
  path,
  link,
  keyName,
  organizationName,
  children,
  onClose,
}: {
  id: string;
  path: string;
  link: string;
  keyName: (key: string | null) => string;
  organizationName?: (organization: string | null) => string;
  children?: (detail: RequestDetail) => ReactNode;
  onClose: () => void;
}): ReactNode {
  const query = useQuery({
    queryKey: ['request', path, id],
    queryFn: ({ signal }) => api.get<RequestDetail>(`${path}/${encodeURIComponent(id)}`, {}, signal),
    staleTime: Infinity,
    retry: false,
  });
  return (
    <Dialog
      title="Request"
      size="wide"
      onClose={onClose}
      footer={<CopyButton text={`${location.origin}/dashboard${link}`} label="Copy link" />}
    >
      <Loaded query={query} loading={<Skeleton rows={8} height={20} />}>
        {(detail) => (
          <>
            <RequestError detail={detail} />
            <Facts detail={detail} keyName={keyName} organizationName={organizationName} />
            <Phases detail={detail} />
            <PromptCache detail={detail} />
            <Parameters detail={detail} />
            {detail.parameters !== null && children?.(detail)}
          </>
        )}
      </Loaded>
    </Dialog>
  );
}

/** The error as the client received it. */
function RequestError({ detail: { outcome, message, code, param } }: { detail: RequestDetail }): ReactNode {
  if (code === null) return null;
  return (
    <Notice tone={outcome === 'failed' ? 'danger' : 'warn'}>
      <div className="request-error">
        {message !== null && <p>{message}</p>}
        <p className="hint">
          <Code>{code}</Code>
          {param !== null && (
            <>
              {' '}
              in <Code>{param}</Code>
            </>
          )}
        </p>
      </div>
    </Notice>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }): ReactNode {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Facts({
  detail,
  keyName,
  organizationName,
}: {
  detail: RequestDetail;
  keyName: (key: string | null) => string;
  organizationName: ((organization: string | null) => string) | undefined;
}): ReactNode {
  const { request_id: requestId, model, asked_model: asked, trace_id: traceId, trace_url: traceUrl } = detail;
  return (
    <dl className="fact-list">
      <Fact label="Request ID">
        <span className="row tight">
          <Code>{requestId}</Code>
          <CopyButton text={requestId} label="Copy request ID" iconOnly />
        </span>
      </Fact>
      <Fact label="Received">
        <time dateTime={detail.received_at}>
          {date(detail.received_at)}, {clock(detail.received_at)}
        </time>
      </Fact>
      <Fact label="Outcome">
        <OutcomeBadge {...detail} />
        {detail.finish_reason !== null && <span className="muted"> {detail.finish_reason.replaceAll('_', ' ')}</span>}
      </Fact>
      <Fact label="Duration">{time(detail.duration_ms)}</Fact>
      <Fact label="Endpoint">
        <Code>
          {detail.method === null ? '' : `${detail.method} `}
          {detail.endpoint}
        </Code>
        {detail.stream && ' streamed'}
      </Fact>
      <Fact label="Model">
        {model ?? (asked === null ? 'none' : <Code>{asked}</Code>)}
        {model === null && asked !== null && <span className="muted"> requested</span>}
        {model !== null && asked !== null && asked !== model && (
          <span className="muted">
            {' '}
            requested as <Code>{asked}</Code>
          </span>
        )}
      </Fact>
      {organizationName !== undefined && <Fact label="Organization">{organizationName(detail.organization_id)}</Fact>}
      <Fact label="API key">{keyName(detail.api_key_id)}</Fact>
      {detail.client_address !== null && (
        <Fact label="Client">
          <Code>{detail.client_address}</Code>
          {detail.user_agent !== null && <span className="cell-sub">{detail.user_agent}</span>}
        </Fact>
      )}
      {detail.input_tokens + detail.output_tokens > 0 && <Fact label="Tokens">{tokens(detail)}</Fact>}
      {traceId !== null && (
        <Fact label="Trace">
          <span className="row tight">
            {traceUrl === null ? (
              <Code>{traceId}</Code>
            ) : (
              <a href={traceUrl} target="_blank" rel="noreferrer">
                {traceId}
              </a>
            )}
            <CopyButton text={traceId} label="Copy trace ID" iconOnly />
          </span>
        </Fact>
      )}
    </dl>
  );
}

function tokens({
  input_tokens: input,
  cached_tokens: cached,
  output_tokens: output,
  reasoning_tokens: reasoning,
  images,
}: RequestObject): string {
  const parts = [
    `${count(input)} in${cached > 0 ? ` (${count(cached)} cached)` : ''}`,
    `${count(output)} out${reasoning > 0 ? ` (${count(reasoning)} reasoning)` : ''}`,
  ];
  return [...parts, ...(images > 0 ? [`${count(images)} images`] : [])].join(', ');
}

function Phases({ detail: { phases, duration_ms: whole } }: { detail: RequestDetail }): ReactNode {
  const parts = PHASES.map((phase) => ({ ...phase, ms: phases[phase.key] })).filter(
    (phase): phase is typeof phase & { ms: number } => phase.ms !== null,
  );
  const sum = parts.reduce((all, { ms }) => all + ms, 0);
  if (parts.length === 0) return null;
  return (
    <section className="request-part" aria-label="Timings">
      <h3>Where {time(whole)} went</h3>
      <div className="phase-bar" aria-hidden="true">
        {parts.map(({ key, color, ms }) =>
          ms === 0 ? null : (
            <span key={key} style={{ flexGrow: ms / Math.max(1, sum), background: `var(--series-${color})` }} />
          ),
        )}
      </div>
      <ul className="chart-legend">
        {parts.map(({ key, label, color, ms }) => (
          <li key={key} className="chart-key">
            <span className="chart-swatch" style={{ background: `var(--series-${color})` }} />
            {label} <b>{time(ms)}</b>
          </li>
        ))}
      </ul>
    </section>
  );
}

const CACHE_RESULTS: Readonly<Record<string, string>> = {
  match: 'The prompt continues the earlier one.',
  evicted: 'The prompt continues the earlier one, but part of it was no longer in the cache.',
  not_found: 'The earlier prompt was not found in memory.',
  unavailable: 'Token IDs are not available for upstream models.',
  model_changed: 'The model differs.',
  tools_changed: 'The tools differ.',
  system_changed: 'The system prompt differs.',
  messages_changed: 'An earlier message differs.',
  format_changed: 'The output format differs.',
  effort_changed: 'The reasoning effort differs.',
  verbosity_changed: 'The verbosity differs.',
  variables_changed: 'The chat template variables differ.',
  compaction_changed: 'The conversation was compacted.',
  rendering_changed: 'The chat template rendered the same messages differently.',
};

/** Shows how the prompt compares with an earlier prompt, if the client requested this comparison. */
function PromptCache({ detail: { parameters, text } }: { detail: RequestDetail }): ReactNode {
  const result = parameters?.['cache_comparison'];
  if (typeof result !== 'string') return null;
  const matched = parameters?.['cache_matched_tokens'];
  const missed = parameters?.['cache_missed_tokens'];
  const difference = text?.difference ?? null;
  return (
    <section className="request-part" aria-label="Prompt cache">
      <h3>Prompt cache</h3>
      <p>
        {CACHE_RESULTS[result] ?? result}
        {typeof matched === 'number' && typeof missed === 'number' && (
          <span className="muted">
            {' '}
            {count(matched)} tokens matched, {count(missed)} missed
          </span>
        )}
      </p>
      <CacheTiers parameters={parameters} />
      {difference !== null && (
        <>
          <Said who={`before token ${difference.at + 1}`} text={difference.before} />
          <Said who="earlier prompt" text={difference.earlier} />
          <Said who="this prompt" text={difference.current} />
        </>
      )}
    </section>
  );
}

/**
 * Shows how many cached tokens came from memory and from disk, and why pages on disk were not used. Renders nothing if
 * the server does not keep pages on disk.
 */
function CacheTiers({ parameters }: Pick<RequestDetail, 'parameters'>): ReactNode {
  const memory = parameters?.['cache_memory_tokens'];
  const disk = parameters?.['cache_disk_tokens'];
  const miss = parameters?.['cache_disk_miss'];
  const at = parameters?.['cache_disk_miss_at'];
  if (typeof memory !== 'number' || typeof disk !== 'number') return null;
  return (
    <p>
      {count(memory)} tokens came from memory, {count(disk)} from disk.
      {typeof miss === 'string' && (
        <>
          {' '}
          {DISK_MISSES[miss] ?? miss}
          {typeof at === 'number' && <span className="muted"> {dateTime(1000 * at)}</span>}
        </>
      )}
    </p>
  );
}

const DISK_MISSES: Record<string, string> = {
  never_stored: 'The rest was never stored on disk.',
  other_engine: 'The rest is stored on disk for another version of the model or other engine settings.',
  evicted: 'The rest was evicted from disk.',
  erased: 'The rest was erased from disk.',
  expired: 'The rest has expired on disk.',
  damaged: 'The rest was damaged on disk.',
  below_minimum: 'The prompt is shorter than kv.min_tokens.',
  no_room: 'There was no room in memory for the rest.',
  model_unknown: 'The files of the model had not been identified yet.',
  unreadable: 'The rest could not be read from disk.',
};

const CACHE_FIELDS: ReadonlySet<string> = new Set([
  'cache_comparison',
  'cache_matched_tokens',
  'cache_missed_tokens',
  'cache_memory_tokens',
  'cache_disk_tokens',
  'cache_disk_miss',
  'cache_disk_miss_at',
]);

function Parameters({ detail: { parameters } }: { detail: RequestDetail }): ReactNode {
  const entries = Object.entries(parameters ?? {}).filter(([name]) => !CACHE_FIELDS.has(name));
  if (entries.length === 0) return null;
  return (
    <section className="request-part" aria-label="Parameters">
      <h3>Parameters</h3>
      <ul className="pairs">
        {entries.map(([name, value]) => (
          <li key={name}>
            <span className="muted">{name}</span> <code>{String(value)}</code>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The prompt and response, or why they are not available. */
export function RequestText({ detail, why }: { detail: RequestDetail; why: ReactNode }): ReactNode {
  const { text } = detail;
  if (text === null) return <Notice>{why}</Notice>;
  return (
    <section className="request-part" aria-label="Prompt and response">
      <h3>Prompt and response</h3>
      {text.cut && (
        <p className="hint">Only part of the text is stored: the end of the prompt and the start of the response.</p>
      )}
      {text.prompt.map((message, at) => (
        <Said key={`p${at}`} who={message.role} text={message.text} />
      ))}
      {text.answer.map((piece, at) => (
        <Said
          key={`a${at}`}
          who={`response${piece.choice > 0 ? ` ${piece.choice + 1}` : ''}${piece.section === 'content' ? '' : `, ${piece.section}`}`}
          text={piece.text}
        />
      ))}
    </section>
  );
}

function Said({ who, text }: { who: string; text: string }): ReactNode {
  return (
    <figure className="said">
      <figcaption>{who}</figcaption>
      <pre tabIndex={0}>{text}</pre>
    </figure>
  );
}
