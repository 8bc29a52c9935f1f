{{- define "monolith.labels" -}}
app.kubernetes.io/name: monolith
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* Helm reads whole numbers of a values file as floats, which it would write as 2e+06. */ -}}
{{- define "monolith.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end }}
{{- define "monolith.name" -}}
{{ .Release.Name }}-monolith
{{- end }}
{{- define "monolith.secret" -}}
{{ .Values.existingSecret | default (include "monolith.name" .) }}
{{- end }}
{{- define "monolith.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "monolith.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}
{{- /* "true" if the processes share PostgreSQL and Redis; otherwise one process keeps its data in a volume. */ -}}
{{- define "monolith.isShared" -}}
{{- $isGiven := or .Values.databaseUrl .Values.state .Values.postgres.enabled }}
{{- if or .Values.shared $isGiven }}true
{{- else if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled }}
{{- fail "several replicas need a shared PostgreSQL and Redis: set databaseUrl and redisUrl, or shared with existingSecret" }}
{{- end }}
{{- end }}
{{- define "monolith.databaseUrl" -}}
{{- if .Values.postgres.enabled -}}
postgres://monolith:{{ required "postgres.password is required" .Values.postgres.password | include "monolith.text" | urlquery }}@{{ .Release.Name }}-postgres:5432/monolith
{{- else -}}
{{ required "databaseUrl is required: the URL of the PostgreSQL database that the processes share" (.Values.databaseUrl | default .Values.state) }}
{{- end -}}
{{- end }}
{{- define "monolith.redisUrl" -}}
{{- if .Values.redis.enabled -}}
redis://{{ .Release.Name }}-redis:6379
{{- else -}}
{{ required "redisUrl is required: the URL of the Redis server that the processes share" (.Values.redisUrl | default .Values.counters) }}
{{- end -}}
{{- end }}
{{- /* The entries of the secret that this chart creates. */ -}}
{{- define "monolith.secrets" -}}
{{- if include "monolith.isShared" . }}
database-url: {{ include "monolith.databaseUrl" . | quote }}
redis-url: {{ include "monolith.redisUrl" . | quote }}
{{- end }}
api-key: {{ required "apiKey is required: choose a key of at least 8 characters" .Values.apiKey | include "monolith.text" | quote }}
{{- with .Values.metricsToken }}
metrics-token: {{ include "monolith.text" . | quote }}
{{- end }}
{{- end }}
{{- /* Settings that are derived from other values. Entries of `env` with the same name replace them. */ -}}
{{- define "monolith.settings" -}}
MONOLITH_HTTP_TRUST_PROXY: "true"
MONOLITH_HTTP_UNREADY_MS: {{ .Values.unreadyMs | int | quote }}
MONOLITH_ENGINE_DRAIN_MS: {{ .Values.drainMs | int | quote }}
{{- if .Values.modelCache.enabled }}
HF_HOME: /models
{{- end }}
{{- if .Values.ingress.enabled }}
MONOLITH_HTTP_ALLOWED_HOSTS: {{ printf "%s,%s" .Values.ingress.host (include "monolith.name" .) | quote }}
MONOLITH_DASHBOARD_URL: {{ printf "%s://%s" (ternary "https" "http" (ne .Values.ingress.tlsSecret "")) .Values.ingress.host | quote }}
{{- end }}
{{- end }}
