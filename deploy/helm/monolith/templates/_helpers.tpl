{{- define "monolith.labels" -}}
app.kubernetes.io/name: monolith
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* Helm reads whole numbers of a values file as floats, which it would write as 2e+06. */ -}}
{{- define "monolith.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end }}
{{- define "monolith.secret" -}}
{{ .Values.existingSecret | default (printf "%s-monolith" .Release.Name) }}
{{- end }}
{{- define "monolith.databaseUrl" -}}
{{- if .Values.postgres.enabled -}}
postgres://monolith:{{ required "postgres.password is needed" .Values.postgres.password | include "monolith.text" | urlquery }}@{{ .Release.Name }}-postgres:5432/monolith
{{- else -}}
{{ required "databaseUrl is needed: the PostgreSQL that the processes share" (.Values.databaseUrl | default .Values.state) }}
{{- end -}}
{{- end }}
{{- define "monolith.redisUrl" -}}
{{- if .Values.redis.enabled -}}
redis://{{ .Release.Name }}-redis:6379
{{- else -}}
{{ required "redisUrl is needed: the Redis that the processes share" (.Values.redisUrl | default .Values.counters) }}
{{- end -}}
{{- end }}
{{- define "monolith.shared" -}}
{{ include "monolith.databaseUrl" . }} {{ include "monolith.redisUrl" . }} {{ include "monolith.text" .Values.apiKey }}
{{- end }}
