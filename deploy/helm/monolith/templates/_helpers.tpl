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
{{- define "monolith.state" -}}
{{- if .Values.postgres.enabled -}}
postgres://monolith:{{ required "postgres.password is needed" .Values.postgres.password | include "monolith.text" | urlquery }}@{{ .Release.Name }}-postgres:5432/monolith
{{- else -}}
{{ required "state is needed: the PostgreSQL that the processes share" .Values.state }}
{{- end -}}
{{- end }}
{{- define "monolith.counters" -}}
{{- if .Values.redis.enabled -}}
redis://{{ .Release.Name }}-redis:6379
{{- else -}}
{{ required "counters is needed: the Redis that the processes share" .Values.counters }}
{{- end -}}
{{- end }}
{{- define "monolith.shared" -}}
{{ include "monolith.state" . }} {{ include "monolith.counters" . }} {{ include "monolith.text" .Values.apiKey }}
{{- end }}
