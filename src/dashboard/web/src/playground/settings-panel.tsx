// Request settings other than the messages: model, system prompt, sampling, reasoning, response format, tools.
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { DashboardModel } from '../../../../shared/wire/models.js';
import { Button } from '../components/button.js';
import { Select, TextArea, TextField } from '../components/field.js';
import { Segmented } from '../components/tabs.js';
import { count } from '../format.js';
import { EXAMPLE_SCHEMA, EXAMPLE_TOOLS } from './settings.js';
import type { Problems, Settings } from './settings.js';

interface Props {
  models: readonly DashboardModel[];
  /** In a comparison, each column selects its own model, so the panel has no model field. */
  isCompared: boolean;
  settings: Settings;
  problems: Problems;
  onChange: (change: Partial<Settings>) => void;
  onReset: () => void;
}

export function SettingsPanel({ models, isCompared, settings, problems, onChange, onReset }: Props): ReactNode {
  const model = models.find(({ id }) => id === settings.model);
  return (
    <div className="settings">
      {isCompared ? (
        <p className="hint">These settings apply to every column. Choose the models above the columns.</p>
      ) : (
        <Select
          label="Model"
          value={settings.model}
          onChange={(event) => onChange({ model: event.target.value })}
          error={problems.model}
          hint={model && <ModelFacts model={model} />}
        >
          {models.map(({ id, display_name: name, state, lifecycle }) => (
            <option key={id} value={id}>
              {name === id ? id : `${name} (${id})`}
              {state === 'ready' ? '' : `, ${state}`}
              {lifecycle === 'deprecated' ? ', deprecated' : ''}
            </option>
          ))}
        </Select>
      )}
      <TextArea
        label="System prompt"
        rows={3}
        value={settings.system}
        placeholder="None"
        onChange={(event) => onChange({ system: event.target.value })}
      />
      <Reasoning model={model} value={settings.effort} onChange={(effort) => onChange({ effort })} />
      <div className="settings-pair">
        <NumberField
          label="Temperature"
          value={settings.temperature}
          fallback={model?.sampling_defaults['temperature'] ?? 1}
          min={0}
          max={2}
          step={0.1}
          error={problems.temperature}
          onChange={(temperature) => onChange({ temperature })}
        />
        <NumberField
          label="Top P"
          value={settings.topP}
          fallback={model?.sampling_defaults['top_p'] ?? 1}
          min={0}
          max={1}
          step={0.05}
          error={problems.topP}
          onChange={(topP) => onChange({ topP })}
        />
        <NumberField
          label="Top K"
          value={settings.topK}
          fallback={model?.sampling_defaults['top_k'] ?? 'off'}
          min={0}
          max={1_000}
          step={1}
          error={problems.topK}
          onChange={(topK) => onChange({ topK })}
        />
        <NumberField
          label="Max output tokens"
          value={settings.maxTokens}
          fallback={model?.max_output_tokens ?? ''}
          min={1}
          step={1}
          error={problems.maxTokens}
          onChange={(maxTokens) => onChange({ maxTokens })}
        />
        <NumberField
          label="Seed"
          value={settings.seed}
          fallback="random"
          step={1}
          error={problems.seed}
          onChange={(seed) => onChange({ seed })}
        />
      </div>
      <TextArea
        label="Stop sequences"
        rows={settings.stop === '' ? 1 : 3}
        className="mono"
        spellCheck={false}
        placeholder="None"
        value={settings.stop}
        hint="One per line; \n is a line break."
        onChange={(event) => onChange({ stop: event.target.value })}
        error={problems.stop}
      />
      <Select
        label="Token probabilities"
        value={settings.logprobs}
        onChange={(event) => onChange({ logprobs: event.target.value })}
        options={[
          { value: '', label: 'Not shown' },
          { value: '0', label: 'Shown' },
          { value: '5', label: 'With 5 alternatives' },
          { value: '20', label: 'With 20 alternatives' },
        ]}
      />
      <div className="field">
        <span className="field-name" id="format-label">
          Response format
        </span>
        <Segmented
          label="Response format"
          value={settings.format}
          onChange={(format) =>
            onChange({
              format,
              ...(format === 'json_schema' && settings.schema === '' ? { schema: EXAMPLE_SCHEMA } : {}),
            })
          }
          options={[
            { value: 'text', label: 'Text' },
            { value: 'json_object', label: 'JSON' },
            { value: 'json_schema', label: 'JSON Schema' },
          ]}
        />
      </div>
      {settings.format === 'json_schema' && (
        <JsonArea
          label="JSON Schema"
          value={settings.schema}
          example={EXAMPLE_SCHEMA}
          error={problems.schema}
          onChange={(schema) => onChange({ schema })}
        />
      )}
      <JsonArea
        label="Tools"
        value={settings.tools}
        example={EXAMPLE_TOOLS}
        error={problems.tools}
        onChange={(tools) => onChange({ tools })}
        hint="A JSON list of functions. The model calls them; you enter the results."
        placeholder="No tools"
      />
      <Button variant="ghost" size="small" onClick={onReset}>
        Reset to defaults
      </Button>
    </div>
  );
}

function ModelFacts({ model }: { model: DashboardModel }): ReactNode {
  const facts = [
    model.context_window > 0 ? `${count(model.context_window)} tokens of context` : null,
    model.input_modalities.includes('image') ? 'text and images' : 'text only',
    model.reasoning_efforts.some((effort) => effort !== 'none') ? 'supports thinking' : null,
  ];
  return <>{facts.filter((fact) => fact !== null).join(' · ')}</>;
}

function Reasoning({
  model,
  value,
  onChange,
}: {
  model: DashboardModel | undefined;
  value: string;
  onChange: (value: string) => void;
}): ReactNode {
  const efforts = model?.reasoning_efforts ?? [];
  const thinks = efforts.some((effort) => effort !== 'none');
  return (
    <Select
      label="Reasoning effort"
      value={thinks ? value : ''}
      disabled={!thinks}
      onChange={(event) => onChange(event.target.value)}
      {...(thinks || model === undefined ? {} : { hint: 'This model does not think before responding.' })}
      options={[
        { value: '', label: `Default${model === undefined ? '' : ` (${model.default_reasoning_effort})`}` },
        ...efforts.map((effort) => ({ value: effort, label: effort })),
      ]}
    />
  );
}

function NumberField({
  label,
  value,
  fallback,
  onChange,
  ...rest
}: {
  label: string;
  value: string;
  fallback: number | string;
  min?: number;
  max?: number;
  step: number;
  error?: string | undefined;
  onChange: (value: string) => void;
}): ReactNode {
  // Uses type="text", because type="number" yields '' for invalid input, so no error could be shown.
  const { step, min, max, error } = rest;
  const nudge = (direction: 1 | -1): void => {
    const from = value.trim() === '' ? Number(fallback) : Number(value);
    const to = (Number.isFinite(from) ? from : 0) + direction * step;
    onChange(String(Math.round(Math.min(max ?? Infinity, Math.max(min ?? -Infinity, to)) * 100) / 100));
  };
  return (
    <TextField
      label={label}
      value={value}
      placeholder={typeof fallback === 'number' && Number.isInteger(fallback) ? count(fallback) : String(fallback)}
      inputMode="decimal"
      autoComplete="off"
      error={error}
      onChange={(event) => onChange(event.target.value)}
      onKeyDown={(event) => {
        if (event.key !== 'ArrowUp' && event.key !== 'ArrowDown') return;
        event.preventDefault();
        nudge(event.key === 'ArrowUp' ? 1 : -1);
      }}
    />
  );
}

function JsonArea({
  label,
  value,
  example,
  error,
  hint,
  placeholder,
  onChange,
}: {
  label: string;
  value: string;
  example: string;
  error?: string | undefined;
  hint?: string;
  placeholder?: string;
  onChange: (value: string) => void;
}): ReactNode {
  const [touched, setTouched] = useState(false);
  return (
    <div className="json-area">
      <TextArea
        label={label}
        rows={value === '' ? 2 : 8}
        className="mono"
        spellCheck={false}
        value={value}
        placeholder={placeholder}
        error={touched || value === example ? error : error && 'Incomplete JSON.'}
        {...(hint === undefined ? {} : { hint })}
        onBlur={() => setTouched(true)}
        onFocus={() => setTouched(false)}
        onChange={(event) => onChange(event.target.value)}
      />
      {value === '' ? (
        <Button variant="ghost" size="small" onClick={() => onChange(example)}>
          Insert example
        </Button>
      ) : (
        label === 'Tools' && (
          <Button variant="ghost" size="small" onClick={() => onChange('')}>
            Remove tools
          </Button>
        )
      )}
    </div>
  );
}
