{{/* The name of all objects. */}}
{{- define "isotherm.name" -}}
{{- $base := .Chart.Name -}}
{{- if contains $base .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $base | trunc 63 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "isotherm.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "isotherm.labels" -}}
{{ include "isotherm.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: agent
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "isotherm.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end }}

{{/* The namespaces that agreed to be acted on: a list as JSON, sorted. */}}
{{- define "isotherm.namespaces" -}}
{{- $all := list -}}
{{- if .Values.acting.enabled -}}
{{- $all = .Values.acting.namespaces -}}
{{- if .Values.acting.namespaceLabel -}}
{{- $want := splitn "=" 2 .Values.acting.namespaceLabel -}}
{{- range (lookup "v1" "Namespace" "" "").items -}}
{{- if eq (get (.metadata.labels | default dict) $want._0) $want._1 -}}
{{- $all = append $all .metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $all | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* Bytes of a quantity of Kubernetes. */}}
{{- define "isotherm.bytes" -}}
{{- $text := toString . -}}
{{- $factor := 1 -}}
{{- range $unit, $n := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- if hasSuffix $unit $text -}}{{- $factor = $n -}}{{- end -}}
{{- end -}}
{{- if eq $factor 1 -}}
{{- range $unit, $n := dict "K" 1000 "k" 1000 "M" 1000000 "G" 1000000000 -}}
{{- if hasSuffix $unit $text -}}{{- $factor = $n -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- mul (regexFind "^[0-9]+" $text | int64) $factor -}}
{{- end }}
